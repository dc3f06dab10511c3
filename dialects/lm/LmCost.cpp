// SPDX-License-Identifier: Apache-2.0
// The work of the ops that dominate a step; a multiply-add counts as two operations.
#include "dialects/lm/Lm.h"

using namespace mlir;
using namespace ftlm::lm;

/// 2 * rows * in * out, where the operands are [rows, in] and [rows, out].
static int64_t productFlops(Value first, Value second) {
  auto left = cast<RankedTensorType>(first.getType());
  int64_t out = cast<RankedTensorType>(second.getType()).getShape().back();
  return 2 * left.getNumElements() * out;
}

int64_t LinearOp::getFlops() {
  return productFlops(getInput(), getResult());
}
int64_t LinearDataGradOp::getFlops() {
  return productFlops(getAdjoint(), getResult());
}
int64_t LinearWeightGradOp::getFlops() {
  return productFlops(getInput(), getAdjoint());
}

/// Two products over the causal half of T x T for each head.
static int64_t attentionFlops(Value output) {
  auto type = cast<RankedTensorType>(output.getType());
  return 2 * type.getNumElements() * (type.getShape()[1] + 1);
}

int64_t AttentionOp::getFlops() {
  return attentionFlops(getResult());
}
/// Five products: the scores again, and the gradients of values, probabilities, queries and keys.
int64_t AttentionGradOp::getFlops() {
  return attentionFlops(getOutput()) * 5 / 2;
}
