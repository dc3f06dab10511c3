// SPDX-License-Identifier: Apache-2.0
// Generates the kernel of a group of ops over rows. A unit of work is a block of 64 rows. For each
// row the ops run in phases, each a loop over chunks of 16 columns: a phase ends where a reduction
// over the row is needed. Sums over rows go to one partial row a block, which a second kernel adds
// up.
#pragma once

#include "dialects/dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"

namespace ftlm::codegen {

/// Rows of a unit of work.
inline constexpr int64_t blockRows = 64;

/// Can this op be in a kernel group of rows?
bool isRowOp(mlir::Operation *op);
/// Does this op sum over rows (its result is a partial row a block)?
bool isColumnSum(mlir::Operation *op);
/// Has the op random numbers?
bool hasRandom(mlir::Operation *op);
/// The number of rows that a row op runs over.
int64_t rowsOf(mlir::Operation *op);

/// Writes the function `name` for the group into `kernels`. Arguments: inputs, results (partial
/// rows in place of column sums), then `random` and `examples` where the group has random numbers.
void buildRowKernel(mlir::ModuleOp kernels, llvm::StringRef name, dist::KernelGroupOp group);

} // namespace ftlm::codegen
