// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

/// The rate and site of an op with random numbers.
LogicalResult ftlm::lm::checkRate(Operation *op, double rate, int64_t site) {
  if (!(rate >= 0 && rate < 1))
    return op->emitOpError() << "has a dropout rate of " << rate << "; expected 0 <= rate < 1";
  if (site < 0 || site > 15)
    return op->emitOpError() << "has random site " << site << "; expected 0 to 15";
  return success();
}

LogicalResult DropoutOp::verify() {
  if (failed(checkRate(*this, getRate(), getSite())) ||
      failed(checkShape(*this, "random", shapeOf(getRandom()), {2})))
    return failure();
  if (failed(checkNotScalar(*this, "an input", getInput())))
    return failure();
  if (!getExamples())
    return success();
  return checkShape(*this, "examples", shapeOf(getExamples()), {shapeOf(getInput()).front()});
}

SmallVector<Value> DropoutOp::buildGradient(OpBuilder &b, ValueRange adjoints, ArrayRef<bool>) {
  SmallVector<Value> result(getNumOperands());
  result[0] = DropoutOp::create(b, getLoc(), getInput().getType(), adjoints[0], getRateAttr(),
                                getSiteAttr(), getRandom(), getExamples());
  return result;
}

void DropoutOp::removeRandom() {
  replaceAllUsesWith(getInput());
  erase();
}

Access DropoutOp::operandAccess(unsigned operand) {
  return operand == 0 ? Access::Row : Access::Address;
}

bool DropoutOp::drawsRandom() {
  return true;
}

Value DropoutOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  KernelBuilder &k = row.k;
  Value example = k.index(0), first = row.at(chunk);
  if (getExamples()) {
    auto type = cast<RankedTensorType>(getType());
    int64_t columns = row.columns();
    Value rows = k.index(type.getNumElements() / columns / type.getShape()[0]);
    Value narrow = k.load(row.address(getExamples()), k.divI(row.row(), rows), k.b.getI32Type());
    example = arith::ExtUIOp::create(k.b, k.b.getI64Type(), narrow);
    first = k.addI(k.mulI(k.remI(row.row(), rows), k.index(columns)), chunk.column);
  }
  Value keep = k.keepMask(row.address(getRandom()), row.site(getSite()), example, first,
                          getRateAttr().getValueAsDouble());
  Value scaled =
      k.mul(row.chunk(getInput(), chunk), k.splat(1.0 / (1.0 - getRateAttr().getValueAsDouble())));
  return arith::SelectOp::create(k.b, keep, scaled, k.zeroVector());
}
