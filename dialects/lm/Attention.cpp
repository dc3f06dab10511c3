// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"
#include "dialects/plan/InstructionBuilder.h"
#include "dialects/plan/Plan.h"
#include "schema/WorkspaceSizes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

/// Two products over the causal half of T x T for each head.
static int64_t attentionFlops(Value output) {
  auto type = cast<RankedTensorType>(output.getType());
  return 2 * type.getNumElements() * (type.getShape()[1] + 1);
}

/// What lm.attention and its gradient have in common. `lse` and `out` are the forward op's results.
template <typename Op>
static LogicalResult checkAttention(Op op, Value out, Value lse) {
  int64_t heads = op.getHeads(), kvHeads = op.getKvHeads();
  ArrayRef<int64_t> q = shapeOf(op.getQueries());
  if (q.size() != 3 || heads < 1 || kvHeads < 1 || heads % kvHeads != 0)
    return op.emitOpError()
           << "expects queries of rank 3 and heads that are a multiple of kv_heads; found " << heads
           << " and " << kvHeads;
  int64_t parts = op.getKeys() ? heads : heads + 2 * kvHeads;
  if (q[2] % parts != 0)
    return op.emitOpError() << "cannot cut a width of " << q[2] << " into " << heads
                            << (op.getKeys() ? " heads" : " queries and 2 x ")
                            << (op.getKeys() ? std::string()
                                             : std::to_string(kvHeads) + " keys and values");
  int64_t headSize = q[2] / parts;
  for (Value value : {op.getKeys(), op.getValues()})
    if (value &&
        failed(checkShape(op, "keys or values", shapeOf(value), {q[0], q[1], kvHeads * headSize})))
      return failure();
  std::optional<double> dropout;
  if (op.getDropout())
    dropout = op.getDropoutAttr().getValueAsDouble();
  if (dropout.has_value() != op.getSite().has_value() ||
      dropout.has_value() != (op.getRandom() && op.getExamples()))
    return op.emitOpError("needs dropout, site, random and examples together, or none of them");
  if (dropout && (failed(checkRate(op, *dropout, *op.getSite())) ||
                  failed(checkShape(op, "random", shapeOf(op.getRandom()), {2})) ||
                  failed(checkShape(op, "examples", shapeOf(op.getExamples()), {q[0]}))))
    return failure();
  if (failed(checkShape(op, "an output", shapeOf(out), {q[0], q[1], heads * headSize})))
    return failure();
  return checkShape(op, "an lse", shapeOf(lse), {q[0], heads, q[1]});
}

int64_t AttentionOp::getFlops() {
  return attentionFlops(getResult());
}

/// Five products: the scores again, and the gradients of values, probabilities, queries and keys.
int64_t AttentionGradOp::getFlops() {
  return attentionFlops(getOutput()) * 5 / 2;
}

LogicalResult AttentionOp::verify() {
  return checkAttention(*this, getResult(), getLse());
}

LogicalResult AttentionGradOp::verify() {
  if (failed(checkAttention(*this, getOutput(), getLse())))
    return failure();
  SmallVector<Type> expected{getQueries().getType()};
  if (getKeys())
    expected.append({getKeys().getType(), getValues().getType()});
  if (TypeRange(expected) != getResultTypes())
    return emitOpError("needs a result of the type of each of queries, keys and values");
  return success();
}

SmallVector<Value> AttentionOp::buildGradient(OpBuilder &b, ValueRange adjoints, ArrayRef<bool>) {
  SmallVector<Type> types{getQueries().getType()};
  if (getKeys())
    types.append({getKeys().getType(), getValues().getType()});
  auto gradient = AttentionGradOp::create(b, getLoc(), types, adjoints[0], getResult(), getLse(),
                                          getQueries(), getKeys(), getValues(), getHeadsAttr(),
                                          getKvHeadsAttr(), getScaleAttr(), getDropoutAttr(),
                                          getSiteAttr(), getRandom(), getExamples());
  SmallVector<Value> result(getNumOperands());
  llvm::copy(gradient.getResults(), result.begin());
  return result;
}

void AttentionOp::removeRandom() {
  removeDropoutAttr();
  removeSiteAttr();
  getRandomMutable().clear();
  getExamplesMutable().clear();
}

//===--- instructions ---------------------------------------------------------===//

namespace {

/// What the two instructions share.
struct Geometry {
  int64_t batch, time, headSize;
  SmallVector<int64_t> offsets, strides; // of queries, keys, values; in elements
};

template <typename Op>
Geometry geometryOf(Op op) {
  ArrayRef<int64_t> shape = shapeOf(op.getQueries());
  int64_t heads = op.getHeads(), kvHeads = op.getKvHeads();
  if (op.getKeys()) {
    int64_t size = shape[2] / heads;
    return {shape[0], shape[1], size, {0, 0, 0}, {heads * size, kvHeads * size, kvHeads * size}};
  }
  int64_t size = shape[2] / (heads + 2 * kvHeads);
  return {shape[0],
          shape[1],
          size,
          {0, heads * size, (heads + kvHeads) * size},
          {shape[2], shape[2], shape[2]}};
}

template <typename Op>
SmallVector<Value> randomOf(Op op, ftlm::planir::InstructionBuilder &builder) {
  if (!op.getDropout())
    return {};
  return {builder.buffer(op.getRandom()), builder.buffer(op.getExamples())};
}

template <typename Op>
IntegerAttr siteOf(Op op, OpBuilder &b) {
  return op.getDropout() ? b.getI64IntegerAttr(globalSite(*op.getSite(), layerOf(op))) : nullptr;
}

template <typename Op>
Value scratch(Op op, ftlm::planir::InstructionBuilder &builder, const std::string &name,
              const Geometry &g) {
  int64_t bytes = ftlm::attentionWorkspaceBytes(g.time, g.headSize) * builder.threads;
  return builder.workspace(name + " workspace",
                           RankedTensorType::get({bytes / 4}, builder.b.getF32Type()));
}

} // namespace

void AttentionOp::emitInstructions(planir::InstructionBuilder &builder) {
  Geometry g = geometryOf(*this);
  OpBuilder &b = builder.b;
  std::string name = builder.nameOf(*this, "attention");
  Value q = builder.buffer(getQueries());
  Value k = getKeys() ? builder.buffer(getKeys()) : q;
  Value v = getValues() ? builder.buffer(getValues()) : q;
  planir::AttentionOp::create(builder.b, b.getStringAttr(name), q, k, v,
                              builder.buffer(getResult()), builder.buffer(getLse()),
                              scratch(*this, builder, name, g), b.getI64IntegerAttr(g.batch),
                              b.getI64IntegerAttr(g.time), getHeadsAttr(), getKvHeadsAttr(),
                              b.getI64IntegerAttr(g.headSize), b.getDenseI64ArrayAttr(g.offsets),
                              b.getDenseI64ArrayAttr(g.strides), getScaleAttr(), getDropoutAttr(),
                              siteOf(*this, b), randomOf(*this, builder));
}

void AttentionGradOp::emitInstructions(planir::InstructionBuilder &builder) {
  Geometry g = geometryOf(*this);
  OpBuilder &b = builder.b;
  std::string name = builder.nameOf(*this, "attention gradient");
  Value q = builder.buffer(getQueries());
  Value k = getKeys() ? builder.buffer(getKeys()) : q;
  Value v = getValues() ? builder.buffer(getValues()) : q;
  Value dq = builder.buffer(getResult(0));
  Value dk = getKeys() ? builder.buffer(getResult(1)) : dq;
  Value dv = getKeys() ? builder.buffer(getResult(2)) : dq;
  planir::AttentionGradOp::create(
      builder.b, b.getStringAttr(name), builder.buffer(getAdjoint()), q, k, v,
      builder.buffer(getOutput()), builder.buffer(getLse()), dq, dk, dv,
      scratch(*this, builder, name, g), b.getI64IntegerAttr(g.batch), b.getI64IntegerAttr(g.time),
      getHeadsAttr(), getKvHeadsAttr(), b.getI64IntegerAttr(g.headSize),
      b.getDenseI64ArrayAttr(g.offsets), b.getDenseI64ArrayAttr(g.strides), getScaleAttr(),
      getDropoutAttr(), siteOf(*this, b), randomOf(*this, builder));
}
