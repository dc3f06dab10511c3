// SPDX-License-Identifier: Apache-2.0
// Rows picked by index: embeddings, single positions, and their gradients.
#include "compiler/interpret/Meanings.h"
#include "dialects/lm/Lm.h"

using namespace mlir;

namespace ftlm::interpret {
namespace {

LogicalResult embedding(Operation *op, ArrayRef<const Tensor *> operands,
                        MutableArrayRef<Tensor> results, const Context &) {
  int64_t offset = cast<lm::EmbeddingOp>(op).getOffset();
  const Tensor &tokens = *operands[0], &table = *operands[1];
  const Tensor *positions = operands.size() > 2 ? operands[2] : nullptr;
  if (failed(checkIndices(op, "token", tokens, table.dim(0))))
    return failure();
  Tensor &x = results[0];
  for (int64_t row = 0; row < x.rows(); ++row)
    for (int64_t c = 0; c < x.columns(); ++c)
      x.at(row, c) = table.at(tokens.integer(row), c) +
                     (positions ? positions->at(offset + row % x.dim(1), c) : 0);
  return success();
}

LogicalResult embeddingGrad(Operation *op, ArrayRef<const Tensor *> operands,
                            MutableArrayRef<Tensor> results, const Context &) {
  const Tensor &tokens = *operands[0], &adjoint = *operands[1];
  if (failed(checkIndices(op, "token", tokens, results[0].dim(0))))
    return failure();
  for (int64_t row = 0; row < adjoint.rows(); ++row)
    for (int64_t c = 0; c < adjoint.columns(); ++c)
      results[0].at(tokens.integer(row), c) += adjoint.at(row, c);
  return success();
}

LogicalResult positionGrad(Operation *op, ArrayRef<const Tensor *> operands,
                           MutableArrayRef<Tensor> results, const Context &) {
  int64_t offset = cast<lm::PositionGradOp>(op).getOffset();
  const Tensor &adjoint = *operands[0];
  for (int64_t row = 0; row < adjoint.rows(); ++row)
    for (int64_t c = 0; c < adjoint.columns(); ++c)
      results[0].at(offset + row % adjoint.dim(1), c) += adjoint.at(row, c);
  return success();
}

LogicalResult takePosition(Operation *op, ArrayRef<const Tensor *> operands,
                           MutableArrayRef<Tensor> results, const Context &) {
  const Tensor &x = *operands[0], &positions = *operands[1];
  if (failed(checkIndices(op, "position", positions, x.dim(1))))
    return failure();
  for (int64_t b = 0; b < x.dim(0); ++b)
    for (int64_t c = 0; c < x.columns(); ++c)
      results[0].at(b, c) = x.at(b * x.dim(1) + positions.integer(b), c);
  return success();
}

LogicalResult takePositionGrad(Operation *op, ArrayRef<const Tensor *> operands,
                               MutableArrayRef<Tensor> results, const Context &) {
  const Tensor &adjoint = *operands[0], &positions = *operands[1];
  Tensor &dx = results[0];
  if (failed(checkIndices(op, "position", positions, dx.dim(1))))
    return failure();
  for (int64_t b = 0; b < dx.dim(0); ++b)
    for (int64_t c = 0; c < dx.columns(); ++c)
      dx.at(b * dx.dim(1) + positions.integer(b), c) = adjoint.at(b, c);
  return success();
}

} // namespace

void addEmbeddingMeanings(MeaningTable &table) {
  table[lm::EmbeddingOp::getOperationName()] = embedding;
  table[lm::EmbeddingGradOp::getOperationName()] = embeddingGrad;
  table[lm::PositionGradOp::getOperationName()] = positionGrad;
  table[lm::TakePositionOp::getOperationName()] = takePosition;
  table[lm::TakePositionGradOp::getOperationName()] = takePositionGrad;
}

} // namespace ftlm::interpret
