// SPDX-License-Identifier: Apache-2.0
// The verifiers of the gradient ops and of those that touch the step's state.
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"

using namespace mlir;
using namespace ftlm::lm;

LogicalResult EmbeddingGradOp::verify() {
  if (failed(checkRank(*this, "tokens", getTokens(), 2)) ||
      failed(checkRank(*this, "an adjoint", getAdjoint(), 3)) ||
      failed(checkRank(*this, "a result", getResult(), 2)))
    return failure();
  ArrayRef<int64_t> tokens = shapeOf(getTokens());
  return checkShape(*this, "an adjoint", shapeOf(getAdjoint()),
                    {tokens[0], tokens[1], shapeOf(getResult())[1]});
}

LogicalResult PositionGradOp::verify() {
  if (failed(checkRank(*this, "an adjoint", getAdjoint(), 3)) ||
      failed(checkRank(*this, "a result", getResult(), 2)))
    return failure();
  ArrayRef<int64_t> adjoint = shapeOf(getAdjoint()), result = shapeOf(getResult());
  int64_t offset = getOffset();
  if (offset < 0 || offset + adjoint[1] > result[0] || adjoint[2] != result[1])
    return emitOpError() << "fills rows " << offset << " to " << offset + adjoint[1] << " of width "
                         << adjoint[2] << ", but its result is " << getResult().getType();
  return success();
}

/// The two sides of a matrix product's weight: its input's and its output's width. A transposed
/// weight may have more rows than the output is wide.
static LogicalResult checkWeight(Operation *op, Value weight, bool transposed, int64_t in,
                                 int64_t out) {
  if (failed(checkRank(op, "a weight", weight, 2)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(weight);
  int64_t weightIn = shape[transposed ? 1 : 0], weightOut = shape[transposed ? 0 : 1];
  if (weightIn == in && (transposed ? weightOut >= out : weightOut == out))
    return success();
  return op->emitOpError() << "has a weight for widths " << weightIn << " to " << weightOut
                           << "; expected " << in << " to " << out
                           << (transposed ? " or more" : "");
}

LogicalResult LinearDataGradOp::verify() {
  if (failed(checkNotScalar(*this, "an adjoint", getAdjoint())) ||
      failed(checkNotScalar(*this, "a result", getResult())) ||
      failed(checkShape(*this, "result rows", rowsOf(getResult()), rowsOf(getAdjoint()))))
    return failure();
  return checkWeight(*this, getWeight(), getTransposed(), shapeOf(getResult()).back(),
                     shapeOf(getAdjoint()).back());
}

LogicalResult LinearWeightGradOp::verify() {
  if (failed(checkNotScalar(*this, "an input", getInput())) ||
      failed(checkNotScalar(*this, "an adjoint", getAdjoint())) ||
      failed(checkShape(*this, "adjoint rows", rowsOf(getAdjoint()), rowsOf(getInput()))))
    return failure();
  return checkWeight(*this, getResult(), getTransposed(), shapeOf(getInput()).back(),
                     shapeOf(getAdjoint()).back());
}

LogicalResult BiasGradOp::verify() {
  if (failed(checkNotScalar(*this, "an adjoint", getAdjoint())))
    return failure();
  return checkShape(*this, "a result", shapeOf(getResult()), {shapeOf(getAdjoint()).back()});
}

LogicalResult NormDataGradOp::verify() {
  if (failed(checkNotScalar(*this, "an input", getInput())) ||
      failed(checkShape(*this, "a gain", shapeOf(getGain()), {shapeOf(getInput()).back()})))
    return failure();
  return checkShape(*this, "a mean", shapeOf(getMean()), rowsOf(getInput()));
}

LogicalResult NormGainGradOp::verify() {
  if (failed(checkNotScalar(*this, "an input", getInput())) ||
      failed(checkShape(*this, "a mean", shapeOf(getMean()), rowsOf(getInput()))))
    return failure();
  return checkShape(*this, "a result", shapeOf(getResult()), {shapeOf(getInput()).back()});
}

LogicalResult AttentionGradOp::verify() {
  return checkAttention(*this, getQkv(), getOutput(), getLse(), getHeads(), getKvHeads(),
                        getDropout(), getSite());
}

LogicalResult TakePositionGradOp::verify() {
  if (failed(checkRank(*this, "a result", getResult(), 3)))
    return failure();
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (failed(checkShape(*this, "positions", shapeOf(getPositions()), {result[0]})))
    return failure();
  return checkShape(*this, "an adjoint", shapeOf(getAdjoint()), {result[0], result[2]});
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(checkNotScalar(*this, "logits", getLogits())) ||
      failed(checkShape(*this, "a result", shapeOf(getResult()), shapeOf(getLogits()))))
    return failure();
  for (auto [what, value] : {std::pair<StringRef, Value>{"an lse", getLse()},
                             {"targets", getTargets()},
                             {"weights", getWeights()}})
    if (failed(checkShape(*this, what, shapeOf(value), rowsOf(getLogits()))))
      return failure();
  return success();
}

LogicalResult AccumulateGradOp::verify() {
  if (getUse() >= 0)
    return success();
  return emitOpError() << "has use " << getUse() << "; expected 0 or more";
}

LogicalResult GradNormOp::verify() {
  return checkShape(*this, "a result", shapeOf(getResult()), {});
}

LogicalResult UpdateOp::verify() {
  return checkShape(*this, "a norm", shapeOf(getNorm()), {});
}
