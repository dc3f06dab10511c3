// SPDX-License-Identifier: Apache-2.0
// Matrix products with a weight. Rows are all dimensions but the last; a transposed weight is
// [rows, in] and may have more rows than the product has columns.
#include "compiler/interpret/Meanings.h"
#include "dialects/lm/Lm.h"

using namespace mlir;

namespace ftlm::interpret {
namespace {

/// The weight between input channel `in` and output channel `out`.
double weightAt(const Tensor &weight, bool transposed, int64_t in, int64_t out) {
  return transposed ? weight.at(out, in) : weight.at(in, out);
}

LogicalResult linear(Operation *op, ArrayRef<const Tensor *> operands,
                     MutableArrayRef<Tensor> results, const Context &) {
  bool transposed = cast<lm::LinearOp>(op).getTransposed();
  const Tensor &x = *operands[0], &weight = *operands[1];
  Tensor &y = results[0];
  for (int64_t row = 0; row < y.rows(); ++row)
    for (int64_t out = 0; out < y.columns(); ++out) {
      double sum = operands.size() > 2 ? (*operands[2])[out] : 0;
      for (int64_t in = 0; in < x.columns(); ++in)
        sum += x.at(row, in) * weightAt(weight, transposed, in, out);
      y.at(row, out) = sum;
    }
  return success();
}

LogicalResult linearDataGrad(Operation *op, ArrayRef<const Tensor *> operands,
                             MutableArrayRef<Tensor> results, const Context &) {
  bool transposed = cast<lm::LinearDataGradOp>(op).getTransposed();
  const Tensor &adjoint = *operands[0], &weight = *operands[1];
  Tensor &dx = results[0];
  for (int64_t row = 0; row < dx.rows(); ++row)
    for (int64_t in = 0; in < dx.columns(); ++in)
      for (int64_t out = 0; out < adjoint.columns(); ++out)
        dx.at(row, in) += adjoint.at(row, out) * weightAt(weight, transposed, in, out);
  return success();
}

LogicalResult linearWeightGrad(Operation *op, ArrayRef<const Tensor *> operands,
                               MutableArrayRef<Tensor> results, const Context &) {
  bool transposed = cast<lm::LinearWeightGradOp>(op).getTransposed();
  const Tensor &x = *operands[0], &adjoint = *operands[1];
  Tensor &dw = results[0];
  for (int64_t row = 0; row < x.rows(); ++row)
    for (int64_t in = 0; in < x.columns(); ++in)
      for (int64_t out = 0; out < adjoint.columns(); ++out)
        (transposed ? dw.at(out, in) : dw.at(in, out)) += x.at(row, in) * adjoint.at(row, out);
  return success();
}

LogicalResult biasGrad(Operation *, ArrayRef<const Tensor *> operands,
                       MutableArrayRef<Tensor> results, const Context &) {
  const Tensor &adjoint = *operands[0];
  for (int64_t row = 0; row < adjoint.rows(); ++row)
    for (int64_t column = 0; column < adjoint.columns(); ++column)
      results[0][column] += adjoint.at(row, column);
  return success();
}

} // namespace

void addLinearMeanings(MeaningTable &table) {
  table[lm::LinearOp::getOperationName()] = linear;
  table[lm::LinearDataGradOp::getOperationName()] = linearDataGrad;
  table[lm::LinearWeightGradOp::getOperationName()] = linearWeightGrad;
  table[lm::BiasGradOp::getOperationName()] = biasGrad;
}

} // namespace ftlm::interpret
