// SPDX-License-Identifier: Apache-2.0
// The pass that turns programs into schedules of instructions. Its description is in Passes.td.
#pragma once

#include "dialects/plan/Plan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ftlm {

#define GEN_PASS_DECL
#include "compiler/schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/schedule/Passes.h.inc"

} // namespace ftlm
