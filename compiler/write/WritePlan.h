// SPDX-License-Identifier: Apache-2.0
// Turns a module of the plan dialect, after the memory pass, into the form that plan files hold,
// and writes it. Nothing is decided here.
#pragma once

#include "compiler/codegen/CompileKernels.h"
#include "schema/plan_generated.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace ftlm {

mlir::FailureOr<plan::PlanT> buildPlan(mlir::ModuleOp module,
                                       std::vector<codegen::KernelObject> kernels);

/// The bytes of a plan file: header and payload (schema/PlanFile.h).
std::vector<uint8_t> planFileBytes(const plan::PlanT &plan);

/// Writes a plan file under a temporary name and renames it.
llvm::Error writePlanFile(const plan::PlanT &plan, const std::string &path);

} // namespace ftlm
