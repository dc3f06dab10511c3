// SPDX-License-Identifier: Apache-2.0
// Generates the kernel of a group of ops over rows (lm::RowKernelOpInterface). A unit of work is a
// block of 64 rows. For each row the ops run in phases, each a loop over chunks of 16 columns: a
// phase ends where a reduction over the row is needed. Sums over rows go to one partial row a
// block, which a second kernel adds up.
#pragma once

#include "dialects/dist/Dist.h"
#include "dialects/lm/Lm.h"

#include "mlir/IR/BuiltinOps.h"

namespace ftlm::codegen {

/// Rows of a unit of work.
inline constexpr int64_t blockRows = 64;

/// Is a value of a group the sum over rows of something?
bool isColumnSum(mlir::Value value);

/// Writes the function `name` for the group into `kernels`. Arguments: inputs, then results
/// (partial rows in place of column sums).
void buildRowKernel(mlir::ModuleOp kernels, llvm::StringRef name, dist::KernelGroupOp group);

/// For each result of a group the input whose buffer it may take over, or -1: one of the same type
/// that is read chunk by chunk, in no later phase than the one in which the result is stored.
llvm::SmallVector<int64_t> inPlaceInputs(dist::KernelGroupOp group);

/// Writes `name`: adds `blocks` partial rows of `columns` in order; arguments: partial rows,
/// result.
kernel::LaunchShape buildColumnSum(mlir::ModuleOp kernels, llvm::StringRef name, int64_t blocks,
                                   int64_t columns);

} // namespace ftlm::codegen
