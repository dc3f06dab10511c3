// SPDX-License-Identifier: Apache-2.0
// The weighted cross-entropy. A row of weight 0 has neither loss nor gradient, whatever its target
// and its logits.
#include "compiler/interpret/Meanings.h"
#include "dialects/lm/Lm.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ftlm::interpret {
namespace {

/// Reports a target outside the logits, in a row whose weight is not 0.
LogicalResult checkTargets(Operation *op, const Tensor &logits, const Tensor &targets,
                           const Tensor &weights) {
  Tensor counted = targets;
  for (int64_t row = 0; row < weights.size(); ++row)
    if (weights[row] == 0)
      counted.integers[static_cast<size_t>(row)] = 0;
  return checkIndices(op, "target", counted, logits.columns());
}

LogicalResult crossEntropy(Operation *op, ArrayRef<const Tensor *> operands,
                           MutableArrayRef<Tensor> results, const Context &) {
  const Tensor &logits = *operands[0], &targets = *operands[1], &weights = *operands[2];
  if (failed(checkTargets(op, logits, targets, weights)))
    return failure();
  for (int64_t row = 0; row < logits.rows(); ++row) {
    double largest = logits.at(row, 0), sum = 0;
    for (int64_t c = 0; c < logits.columns(); ++c)
      largest = std::max(largest, logits.at(row, c));
    for (int64_t c = 0; c < logits.columns(); ++c)
      sum += std::exp(logits.at(row, c) - largest);
    double lse = largest + std::log(sum);
    results[1][row] = lse;
    if (weights[row] != 0)
      results[0][row] = weights[row] * (lse - logits.at(row, targets.integer(row)));
  }
  return success();
}

LogicalResult crossEntropyGrad(Operation *op, ArrayRef<const Tensor *> operands,
                               MutableArrayRef<Tensor> results, const Context &) {
  const Tensor &logits = *operands[0], &lse = *operands[1];
  const Tensor &targets = *operands[2], &weights = *operands[3];
  if (failed(checkTargets(op, logits, targets, weights)))
    return failure();
  for (int64_t row = 0; row < logits.rows(); ++row)
    for (int64_t c = 0; weights[row] != 0 && c < logits.columns(); ++c)
      results[0].at(row, c) = weights[row] * (std::exp(logits.at(row, c) - lse[row]) -
                                              (c == targets.integer(row) ? 1 : 0));
  return success();
}

} // namespace

void addLossMeanings(MeaningTable &table) {
  table[lm::CrossEntropyOp::getOperationName()] = crossEntropy;
  table[lm::CrossEntropyGradOp::getOperationName()] = crossEntropyGrad;
}

} // namespace ftlm::interpret
