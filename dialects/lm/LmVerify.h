// SPDX-License-Identifier: Apache-2.0
// What the verifiers of the lm dialect share: shapes of values and the reports about them. For the
// dialect's own sources only. A check reports one mistake, with what was found and what would be
// right.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"

namespace ftlm::lm {

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

/// The leading dimensions of a tensor, all but the last; none for a tensor of rank 0.
inline llvm::ArrayRef<int64_t> rowsOf(mlir::Value value) {
  llvm::ArrayRef<int64_t> shape = shapeOf(value);
  return shape.empty() ? shape : shape.drop_back();
}

/// Reports that `what` has another shape than `expected`.
inline llvm::LogicalResult checkShape(mlir::Operation *op, llvm::StringRef what,
                                      llvm::ArrayRef<int64_t> found,
                                      llvm::ArrayRef<int64_t> expected) {
  if (found == expected)
    return llvm::success();
  mlir::InFlightDiagnostic diag = op->emitOpError() << "has " << what << " of shape [";
  llvm::interleaveComma(found, diag);
  diag << "]; expected [";
  llvm::interleaveComma(expected, diag);
  return diag << ']';
}

/// Reports that `what` has another rank than `expected`.
inline llvm::LogicalResult checkRank(mlir::Operation *op, llvm::StringRef what, mlir::Value value,
                                     size_t expected) {
  if (shapeOf(value).size() == expected)
    return llvm::success();
  return op->emitOpError() << "has " << what << " of rank " << shapeOf(value).size()
                           << "; expected rank " << expected;
}

/// Reports that `what` has no last dimension.
inline llvm::LogicalResult checkNotScalar(mlir::Operation *op, llvm::StringRef what,
                                          mlir::Value value) {
  if (!shapeOf(value).empty())
    return llvm::success();
  return op->emitOpError() << "has " << what << " of rank 0; expected rank 1 or more";
}

/// The rate and site of an op with random numbers.
llvm::LogicalResult checkRate(mlir::Operation *op, double rate, int64_t site);

} // namespace ftlm::lm
