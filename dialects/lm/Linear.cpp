// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"
#include "dialects/plan/InstructionBuilder.h"
#include "dialects/plan/Plan.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

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

/// 2 * rows * in * out, where the operands are [rows, in] and [rows, out].
static int64_t productFlops(Value first, Value second) {
  auto left = cast<RankedTensorType>(first.getType());
  int64_t out = cast<RankedTensorType>(second.getType()).getShape().back();
  return 2 * left.getNumElements() * out;
}

LogicalResult LinearOp::verify() {
  ArrayRef<int64_t> input = shapeOf(getInput()), weight = shapeOf(getWeight());
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (weight.size() != 2 || input.empty() || result.empty())
    return emitOpError() << "expects a weight of rank 2 and tensors of rank 1 or more";
  int64_t in = getTransposed() ? weight[1] : weight[0];
  int64_t out = getTransposed() ? weight[0] : weight[1];
  if (input.back() != in)
    return emitOpError() << "has an input of width " << input.back() << ", but a weight for " << in;
  if (getTransposed() ? result.back() > out : result.back() != out)
    return emitOpError() << "has a result of width " << result.back() << ", but a weight for "
                         << out;
  if (failed(checkShape(*this, "result rows", result.drop_back(), input.drop_back())))
    return failure();
  if (getBias())
    return checkShape(*this, "a bias", shapeOf(getBias()), {result.back()});
  return success();
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

int64_t LinearOp::getFlops() {
  return productFlops(getInput(), getResult());
}

int64_t LinearDataGradOp::getFlops() {
  return productFlops(getAdjoint(), getResult());
}

int64_t LinearWeightGradOp::getFlops() {
  return productFlops(getInput(), getAdjoint());
}

//===--- over rows ----------------------------------------------------------===//

Access BiasGradOp::operandAccess(unsigned) {
  return Access::Row;
}
Access BiasGradOp::resultAccess(unsigned) {
  return Access::Sum;
}
Value BiasGradOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  return row.chunk(getAdjoint(), chunk);
}

//===--- instructions ---------------------------------------------------------===//

/// Rows of a tensor: all dimensions but the last.
static int64_t rowCount(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() / type.getShape().back();
}

void LinearOp::emitInstructions(planir::InstructionBuilder &builder) {
  int64_t k = shapeOf(getInput()).back(), n = shapeOf(getResult()).back();
  std::string owner = builder.ownerOf(getWeight());
  planir::GemmOp::create(builder.b, owner.empty() ? builder.nameOf(*this, "linear") : owner,
                         builder.buffer(getInput()), builder.buffer(getWeight()),
                         getBias() ? builder.buffer(getBias()) : Value(),
                         builder.buffer(getResult()), rowCount(getInput()), n, k,
                         ArrayRef<int64_t>{k, getTransposed() ? k : n, n}, false, getTransposed());
}

void LinearDataGradOp::emitInstructions(planir::InstructionBuilder &builder) {
  int64_t in = shapeOf(getResult()).back(), out = shapeOf(getAdjoint()).back();
  std::string owner = builder.ownerOf(getWeight());
  planir::GemmOp::create(
      builder.b, (owner.empty() ? builder.nameOf(*this, "linear") : owner) + " data gradient",
      builder.buffer(getAdjoint()), builder.buffer(getWeight()), Value(),
      builder.buffer(getResult()), rowCount(getAdjoint()), in, out,
      ArrayRef<int64_t>{out, getTransposed() ? in : out, in}, false, !getTransposed());
}

void LinearWeightGradOp::emitInstructions(planir::InstructionBuilder &builder) {
  int64_t in = shapeOf(getInput()).back(), out = shapeOf(getAdjoint()).back();
  int64_t rows = rowCount(getInput());
  std::string name = builder.nameOf(*this, "weight gradient");
  Value result = builder.buffer(getResult());
  Value input = builder.buffer(getInput()), adjoint = builder.buffer(getAdjoint());
  if (!getTransposed()) {
    planir::GemmOp::create(builder.b, name, input, adjoint, Value(), result, in, out, rows,
                           ArrayRef<int64_t>{in, out, out}, true, false);
    return;
  }
  if (int64_t stored = shapeOf(getResult())[0]; stored > out) {
    auto tail = RankedTensorType::get({stored - out, in}, builder.b.getF32Type());
    Value rest = planir::ViewOp::create(builder.b, result.getType(), result, name + " unused rows",
                                        out * in * 4, tail);
    planir::ZeroOp::create(builder.b, name + " unused rows", rest);
  }
  planir::GemmOp::create(builder.b, name, adjoint, input, Value(), result, out, in, rows,
                         ArrayRef<int64_t>{out, in, in}, true, false);
}
