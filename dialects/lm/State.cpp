// SPDX-License-Identifier: Apache-2.0
// What a step does to its state. The sums of squares, the norm and the updates have kernels that do
// not depend on a tensor's shape.
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"
#include "dialects/plan/InstructionBuilder.h"
#include "dialects/plan/Plan.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

/// Elements of a chunk whose squares are summed in fp32.
static constexpr int64_t normChunk = 4096;

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto param = symbols.lookupNearestSymbolFrom<ParamOp>(*this, getParamAttr());
  if (!param)
    return emitOpError() << "belongs to " << getParamAttr() << ", which is no lm.param";
  if (param.getSymName().contains('*') != getSymName().contains('*'))
    return emitOpError() << "must have a '*' in its name exactly where " << getParamAttr()
                         << " has one";
  return success();
}

LogicalResult AssignOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyStateUse(*this, getTargetAttr(), getValue().getType(), symbols);
}

LogicalResult MicroBatchesOp::verify() {
  Block &block = getBody().front();
  auto yield = cast<YieldOp>(block.getTerminator());
  if (getCount() < 1)
    return emitOpError() << "runs " << getCount() << " micro-batches; expected 1 or more";
  if (block.getNumArguments() != getSlices().size())
    return emitOpError() << "has " << getSlices().size() << " operands and a body of "
                         << block.getNumArguments() << " arguments";
  auto stacked = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape{getCount()};
    llvm::append_range(shape, tensor.getShape());
    return RankedTensorType::get(shape, tensor.getElementType());
  };
  for (auto [slice, argument] : llvm::zip_equal(getSlices(), block.getArguments()))
    if (slice.getType() != stacked(argument.getType()))
      return emitOpError() << "has an operand of type " << slice.getType()
                           << " for an argument of type " << argument.getType();
  if (yield.getNumOperands() != getNumResults() || getCollected() < 0 ||
      getCollected() > static_cast<int64_t>(getNumResults()))
    return emitOpError() << "yields " << yield.getNumOperands() << " values, has "
                         << getNumResults() << " results, of which " << getCollected()
                         << " are collected";
  for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
    Type expected =
        static_cast<int64_t>(i) < getCollected() ? Type(stacked(value.getType())) : value.getType();
    if (getResult(i).getType() != expected)
      return emitOpError() << "has result " << i << " of type " << getResult(i).getType()
                           << "; expected " << expected;
  }
  return success();
}

//===--- the norm of the gradients ----------------------------------------------===//

LogicalResult GradNormOp::verify() {
  return checkShape(*this, "a result", shapeOf(getResult()), {});
}

/// Builds a kernel once, and returns its name.
static std::string once(ModuleOp kernels, const std::string &name,
                        function_ref<void(KernelBuilder &)> build) {
  if (!kernels.lookupSymbol(name)) {
    KernelBuilder k(kernels, name);
    build(k);
  }
  return name;
}

/// Arguments (gradient, partials f32 [ceil(elements / 4096)]); a unit is a chunk.
static std::string sumSquaresKernel(ModuleOp kernels, int64_t elements) {
  return once(kernels, "sum_squares_" + std::to_string(elements), [&](KernelBuilder &k) {
    Value gradient = k.argument(0), partials = k.argument(1);
    k.loop(k.begin, k.end, 1, {}, [&](Value unit, ValueRange) -> SmallVector<Value> {
      Value from = k.mulI(unit, k.index(normChunk));
      Value to = k.minI(k.addI(from, k.index(normChunk)), k.index(elements));
      Value sum =
          k.rangeLoop(from, to, ValueRange(k.zeroVector()), [&](Chunk c, ValueRange carried) {
            Value g = k.loadChunk(gradient, c.column, c.mask);
            return SmallVector<Value>{k.add(carried[0], k.mul(g, g))};
          })[0];
      k.store(k.fold(sum), partials, unit);
      return {};
    });
  });
}

/// The root of the sum of the partials, added in fp64 in order; arguments (partials, norm f32 [1]).
static std::string normKernel(ModuleOp kernels, int64_t partials) {
  return once(kernels, "norm_of_" + std::to_string(partials), [&](KernelBuilder &k) {
    Value from = k.argument(0), norm = k.argument(1);
    Value zero = arith::ConstantOp::create(k.b, k.b.getF64FloatAttr(0));
    Value sum = k.loop(
        k.index(0), k.index(partials), 1, ValueRange(zero), [&](Value i, ValueRange carried) {
          Value part =
              arith::ExtFOp::create(k.b, k.b.getF64Type(), k.load(from, i, k.b.getF32Type()));
          return SmallVector<Value>{k.add(carried[0], part)};
        })[0];
    Value root = math::SqrtOp::create(k.b, sum);
    k.store(arith::TruncFOp::create(k.b, k.b.getF32Type(), root), norm, k.index(0));
  });
}

void GradNormOp::emitInstructions(planir::InstructionBuilder &builder) {
  auto elementsOf = [](Value v) { return cast<RankedTensorType>(v.getType()).getNumElements(); };
  auto chunksOf = [&](Value v) { return (elementsOf(v) + normChunk - 1) / normChunk; };
  int64_t chunks = 0;
  for (Value gradient : getGradients())
    chunks += chunksOf(gradient);
  OpBuilder &b = builder.b;
  Value partials =
      builder.workspace("norm partials", RankedTensorType::get({chunks}, b.getF32Type()));
  int64_t at = 0;
  for (auto [i, gradient] : llvm::enumerate(getGradients())) {
    std::string name = "norm of gradient " + std::to_string(i);
    int64_t count = chunksOf(gradient);
    Value part = planir::ViewOp::create(builder.b, partials.getType(), partials, name, at * 4,
                                        RankedTensorType::get({count}, b.getF32Type()));
    planir::KernelOp::create(
        builder.b, name, sumSquaresKernel(builder.kernels, elementsOf(gradient)),
        ValueRange{builder.buffer(gradient), part}, ArrayRef<int64_t>{1}, count, 4, nullptr);
    at += count;
  }
  planir::KernelOp::create(builder.b, "gradient norm", normKernel(builder.kernels, chunks),
                           ValueRange{partials, builder.buffer(getResult())}, ArrayRef<int64_t>{1},
                           1, 1, nullptr);
}

//===--- updates --------------------------------------------------------------===//

ParseResult UpdateOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef ruleName;
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<OpAsmParser::UnresolvedOperand> state;
  OpAsmParser::UnresolvedOperand gradient, norm, hyper;
  SmallVector<Type> types;
  if (parser.parseKeyword(&ruleName))
    return failure();
  std::optional<Optimizer> rule = symbolizeOptimizer(ruleName);
  if (!rule)
    return parser.emitError(loc) << "expected adamw, adam_gpt1 or sgd, found " << ruleName;
  if (parser.parseOperandList(state) || parser.parseKeyword("by") ||
      parser.parseOperand(gradient) || parser.parseKeyword("norm") || parser.parseOperand(norm) ||
      parser.parseKeyword("hyper") || parser.parseOperand(hyper))
    return failure();
  Builder &b = parser.getBuilder();
  if (succeeded(parser.parseOptionalKeyword("decay")))
    result.addAttribute("decay", b.getUnitAttr());
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColonTypeList(types))
    return failure();
  if (types.size() != state.size() || types.empty())
    return parser.emitError(loc) << "expected a type for each of " << state.size() << " tensors";
  result.addAttribute("rule", OptimizerAttr::get(parser.getContext(), *rule));
  result.addTypes(types);
  return failure(
      parser.resolveOperands(state, types, loc, result.operands) ||
      parser.resolveOperand(gradient, types.front(), result.operands) ||
      parser.resolveOperand(norm, RankedTensorType::get({}, b.getF32Type()), result.operands) ||
      parser.resolveOperand(hyper, RankedTensorType::get({8}, b.getF32Type()), result.operands));
}

void UpdateOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyOptimizer(getRule()) << ' ' << getState() << " by " << getGradient()
          << " norm " << getNorm() << " hyper " << getHyper();
  if (getDecay())
    printer << " decay";
  printer.printOptionalAttrDict((*this)->getAttrs(), {"rule", "decay"});
  printer << " : " << getResultTypes();
}

LogicalResult UpdateOp::verify() {
  size_t expected = getRule() == Optimizer::Sgd ? 1 : 3;
  if (getState().size() != expected || getNumResults() != expected)
    return emitOpError() << "by " << stringifyOptimizer(getRule()) << " has " << getState().size()
                         << " tensors; expected " << expected
                         << (expected == 1 ? ": the value" : ": value and two moments");
  for (Value value :
       llvm::concat<Value>(SmallVector<Value>(getState()), SmallVector<Value>(getResults())))
    if (value.getType() != getGradient().getType())
      return emitOpError() << "has tensors of types " << value.getType() << " and "
                           << getGradient().getType();
  if (failed(checkShape(*this, "hyper", shapeOf(getHyper()), {8})))
    return failure();
  return checkShape(*this, "a norm", shapeOf(getNorm()), {});
}

LaunchShape UpdateOp::launchShape() {
  return {cast<RankedTensorType>(getGradient().getType()).getNumElements(), elementGrain};
}

std::string UpdateOp::kernelKey() {
  return "update " + stringifyOptimizer(getRule()).str() + (getDecay() ? " decay" : "");
}

int64_t UpdateOp::inPlaceOperand(unsigned result) {
  return result;
}

LaunchShape UpdateOp::emitKernel(KernelBuilder &k) {
  // Arguments: state, gradient, norm, hyper, new state.
  unsigned n = getState().size();
  SmallVector<Value> state;
  for (unsigned i = 0; i < n; ++i)
    state.push_back(k.argument(i));
  Value gradient = k.argument(n), norm = k.argument(n + 1), hyper = k.argument(n + 2);
  for (unsigned i = 0; i < n; ++i)
    state.push_back(k.argument(n + 3 + i));
  auto number = [&](int64_t i) { return k.load(hyper, k.index(i), k.b.getF32Type()); };
  Value lr = number(0), beta1 = number(1), beta2 = number(2), eps = number(3),
        decayRate = number(4);
  Value clip = number(5), correction1 = number(6), correction2 = number(7);
  Value one = k.real(1), length = k.load(norm, k.index(0), k.b.getF32Type());
  // min(1, clip / norm) where clip is above 0; a NaN norm stays one, so that it is seen.
  Value clips = arith::AndIOp::create(
      k.b, arith::CmpFOp::create(k.b, arith::CmpFPredicate::OGT, clip, k.real(0)),
      arith::CmpFOp::create(k.b, arith::CmpFPredicate::UGT, length, clip).getResult());
  Value factor = k.splat(arith::SelectOp::create(k.b, clips, k.div(clip, length), one).getResult());
  Value rate = k.splat(lr), shrink = k.splat(k.mul(lr, decayRate));
  Value b1 = k.splat(beta1), b2 = k.splat(beta2), e = k.splat(eps), d = k.splat(decayRate);
  Value rest1 = k.splat(k.sub(one, beta1)), rest2 = k.splat(k.sub(one, beta2));
  Value c1 = k.splat(correction1), c2 = k.splat(correction2);
  Value root2 = math::SqrtOp::create(k.b, correction2);
  Value gpt1Rate = k.splat(k.div(k.mul(lr, root2), correction1));

  k.rangeLoop(k.begin, k.end, {}, [&](Chunk c, ValueRange) -> SmallVector<Value> {
    Value p = k.loadChunk(state[0], c.column, c.mask);
    Value g = k.mul(k.loadChunk(gradient, c.column, c.mask), factor);
    if (getRule() == Optimizer::Sgd) {
      if (getDecay())
        g = k.add(g, k.mul(d, p));
      k.storeChunk(k.sub(p, k.mul(rate, g)), state[n], c.column, c.mask);
      return {};
    }
    Value m = k.add(k.mul(b1, k.loadChunk(state[1], c.column, c.mask)), k.mul(rest1, g));
    Value v = k.add(k.mul(b2, k.loadChunk(state[2], c.column, c.mask)), k.mul(rest2, k.mul(g, g)));
    k.storeChunk(m, state[n + 1], c.column, c.mask);
    k.storeChunk(v, state[n + 2], c.column, c.mask);
    if (getRule() == Optimizer::AdamW) {
      if (getDecay())
        p = k.sub(p, k.mul(shrink, p));
      Value root = math::SqrtOp::create(k.b, k.div(v, c2));
      p = k.sub(p, k.mul(rate, k.div(k.div(m, c1), k.add(root, e))));
    } else {
      Value step = k.div(m, k.add(math::SqrtOp::create(k.b, v).getResult(), e));
      if (getDecay())
        step = k.add(step, k.mul(d, p));
      p = k.sub(p, k.mul(gpt1Rate, step));
    }
    k.storeChunk(p, state[n], c.column, c.mask);
    return {};
  });
  return launchShape();
}
