// SPDX-License-Identifier: Apache-2.0
// Compiles the generated kernels to shared objects, one for each instruction set. The module is
// read, not changed. Multiply-adds are fused only where the module says so, so all objects give the
// same bits.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ftlm::codegen {

/// An ELF shared object for one instruction set: "x86-64-v3" (AVX2) or "x86-64-v4" (AVX-512).
struct KernelObject {
  std::string isa;
  std::vector<uint8_t> object;
};

mlir::FailureOr<std::vector<KernelObject>> compileKernels(mlir::ModuleOp kernels);

} // namespace ftlm::codegen
