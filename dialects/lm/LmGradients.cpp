// SPDX-License-Identifier: Apache-2.0
// The gradient of each forward op, as lm ops. Data gradients come before weight gradients, so that
// the backward pass goes on while weight gradients wait for their place in a schedule.
#include "dialects/lm/Lm.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;

SmallVector<Value> EmbeddingOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                              ArrayRef<bool> wanted) {
  SmallVector<Value> result(getNumOperands());
  if (wanted[1])
    result[1] =
        EmbeddingGradOp::create(b, getLoc(), getTable().getType(), getTokens(), adjoints[0]);
  if (getPositions() && wanted[2])
    result[2] =
        PositionGradOp::create(b, getLoc(), getPositions().getType(), adjoints[0], getOffset());
  return result;
}

SmallVector<Value> LinearOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                           ArrayRef<bool> wanted) {
  SmallVector<Value> result(getNumOperands());
  if (wanted[0])
    result[0] = LinearDataGradOp::create(b, getLoc(), getInput().getType(), adjoints[0],
                                         getWeight(), getTransposed());
  if (wanted[1])
    result[1] = LinearWeightGradOp::create(b, getLoc(), getWeight().getType(), getInput(),
                                           adjoints[0], getTransposed());
  if (getBias() && wanted[2])
    result[2] = BiasGradOp::create(b, getLoc(), getBias().getType(), adjoints[0]);
  return result;
}

SmallVector<Value> NormOp::buildGradient(OpBuilder &b, ValueRange adjoints, ArrayRef<bool> wanted) {
  SmallVector<Value> result(getNumOperands());
  if (wanted[0])
    result[0] = NormDataGradOp::create(b, getLoc(), getInput().getType(), getKind(), adjoints[0],
                                       getInput(), getGain(), getMean(), getRstd());
  if (wanted[1])
    result[1] = NormGainGradOp::create(b, getLoc(), getGain().getType(), adjoints[0], getInput(),
                                       getMean(), getRstd());
  if (getBias() && wanted[2])
    result[2] = BiasGradOp::create(b, getLoc(), getBias().getType(), adjoints[0]);
  return result;
}

SmallVector<Value> ActivationOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                               ArrayRef<bool> wanted) {
  return {ActivationGradOp::create(b, getLoc(), getInput().getType(), getKind(), adjoints[0],
                                   getInput())};
}

SmallVector<Value> AttentionOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                              ArrayRef<bool> wanted) {
  return {AttentionGradOp::create(b, getLoc(), getQkv().getType(), adjoints[0], getQkv(),
                                  getResult(), getLse(), getHeadsAttr(), getKvHeadsAttr(),
                                  getScaleAttr(), getDropoutAttr(), getSiteAttr())};
}

SmallVector<Value> DropoutOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                            ArrayRef<bool> wanted) {
  return {DropoutOp::create(b, getLoc(), getInput().getType(), adjoints[0], getRate(), getSite(),
                            getTable())};
}

SmallVector<Value> AddOp::buildGradient(OpBuilder &b, ValueRange adjoints, ArrayRef<bool> wanted) {
  return {adjoints[0], adjoints[0]};
}

SmallVector<Value> TakePositionOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                                 ArrayRef<bool> wanted) {
  return {
      TakePositionGradOp::create(b, getLoc(), getInput().getType(), adjoints[0], getPositions()),
      Value()};
}
