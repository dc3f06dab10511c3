// SPDX-License-Identifier: Apache-2.0
// Kernels of ops that are no row ops: sums over everything, over blocks, and into the rows of a
// table. Each writes one function into the module of kernels; the order of every sum is fixed.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ftlm::codegen {

/// How a launch is cut up.
struct LaunchShape {
  int64_t units, grain;
};

/// Is this an op with a kernel of its own?
bool isSpecialOp(mlir::Operation *op);
/// Writes `name` for the op: arguments are its operands, then its result.
LaunchShape buildSpecialKernel(mlir::ModuleOp kernels, llvm::StringRef name, mlir::Operation *op);
/// Writes `name`: adds `blocks` partial rows of `columns` in order; arguments: partial rows,
/// result.
LaunchShape buildColumnSum(mlir::ModuleOp kernels, llvm::StringRef name, int64_t blocks,
                           int64_t columns);

} // namespace ftlm::codegen
