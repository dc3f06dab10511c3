// SPDX-License-Identifier: Apache-2.0
#include "compiler/differentiate/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_LMSTEP
#include "compiler/differentiate/Passes.h.inc"

namespace {

constexpr StringRef momentNames[] = {"moment1/", "moment2/"};

/// Inputs that belong to the step, not to a micro-batch.
bool isOfStep(StringRef input) {
  return input == "random" || input == "hyper";
}

class StepBuilder {
public:
  StepBuilder(ModuleOp module, lm::ProgramOp gradients, lm::Optimizer rule, int64_t microBatches)
      : module(module), gradients(gradients), rule(rule), microBatches(microBatches),
        b(gradients.getLoc(), module.getContext()) {}

  void build() {
    declareMoments();
    makeProgram();
    SmallVector<Value> results = runMicroBatches();
    // The uses of a parameter are added once, in their order.
    llvm::MapVector<StringRef, Value> sums;
    for (auto [name, value] :
         llvm::drop_begin(llvm::zip_equal(gradients.getResultNames(), results))) {
      Value &sum = sums[cast<StringAttr>(name).getValue()];
      sum = sum ? lm::AddOp::create(b, sum.getType(), sum, value) : value;
    }
    SmallVector<Value> ordered;
    for (auto &[name, value] : sums)
      ordered.push_back(value);
    Value norm = lm::GradNormOp::create(b, scalar(), ordered);
    update(sums, norm);
    finish(results.front(), norm, sums);
    gradients.erase();
  }

private:
  RankedTensorType scalar() { return RankedTensorType::get({}, b.getF32Type()); }
  unsigned moments() const { return rule == lm::Optimizer::Sgd ? 0 : 2; }

  void declareMoments() {
    for (auto param : llvm::to_vector(module.getOps<lm::ParamOp>())) {
      if (param.getFrozen())
        continue;
      b.setInsertionPointAfter(param);
      for (unsigned i = 0; i < moments(); ++i)
        lm::StateOp::create(b, (momentNames[i] + param.getSymName()).str(), param.getSymName());
    }
  }

  void makeProgram() {
    b.setInsertionPointAfter(gradients);
    SmallVector<Type> types;
    SmallVector<Attribute> names;
    for (auto [type, name] :
         llvm::zip_equal(gradients.getArgumentTypes(), gradients.getArgumentNames())) {
      types.push_back(isOfStep(cast<StringAttr>(name).getValue()) ? type : stacked(type));
      names.push_back(name);
    }
    types.push_back(RankedTensorType::get({8}, b.getF32Type()));
    names.push_back(b.getStringAttr("hyper"));
    program =
        lm::ProgramOp::create(b, lm::Purpose::Train, "train_step", b.getFunctionType(types, {}),
                              b.getArrayAttr(names), b.getArrayAttr({}), nullptr, nullptr);
    SmallVector<Location> locations(types.size(), b.getLoc());
    b.createBlock(&program.getBody(), {}, types, locations);
  }

  /// The type of the values of all micro-batches; with one of them it is the value's own.
  Type stacked(Type type) {
    if (microBatches == 1)
      return type;
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape{microBatches};
    llvm::append_range(shape, tensor.getShape());
    return RankedTensorType::get(shape, tensor.getElementType());
  }

  /// The losses, and the gradients of all uses summed over the micro-batches.
  SmallVector<Value> runMicroBatches() {
    IRMapping mapping;
    Block &body = gradients.getBody().front();
    Operation *terminator = body.getTerminator();
    auto cloneBody = [&] {
      for (Operation &op : body.without_terminator())
        b.clone(op, mapping);
      return llvm::map_to_vector(terminator->getOperands(),
                                 [&](Value v) { return mapping.lookup(v); });
    };
    SmallVector<Value> slices;
    SmallVector<BlockArgument> sliced;
    for (BlockArgument argument : body.getArguments()) {
      Value outer = program.getArgument(argument.getArgNumber());
      if (microBatches == 1 || outer.getType() == argument.getType()) {
        mapping.map(argument, outer);
      } else {
        slices.push_back(outer);
        sliced.push_back(argument);
      }
    }
    if (microBatches == 1)
      return cloneBody();
    SmallVector<Type> types(terminator->getOperandTypes());
    types.front() = stacked(types.front());
    auto loop = lm::MicroBatchesOp::create(b, types, microBatches, slices, /*collected=*/1);
    OpBuilder::InsertionGuard guard(b);
    Block *inner = b.createBlock(&loop.getBody());
    for (BlockArgument argument : sliced)
      mapping.map(argument, inner->addArgument(argument.getType(), argument.getLoc()));
    lm::YieldOp::create(b, cloneBody());
    return SmallVector<Value>(loop.getResults());
  }

  /// The next values of one parameter and its moments.
  void updateOne(OpBuilder &at, lm::ParamOp param, Value gradient, Value norm, Value hyper) {
    ImplicitLocOpBuilder here(b.getLoc(), at);
    Type type = param.getType();
    SmallVector<std::string> names{param.getSymName().str()};
    for (unsigned i = 0; i < moments(); ++i)
      names.push_back((momentNames[i] + param.getSymName()).str());
    SmallVector<Value> state;
    for (const std::string &name : names)
      state.push_back(lm::UseOp::create(here, type, name));
    auto op = lm::UpdateOp::create(here, SmallVector<Type>(state.size(), type), rule, state,
                                   gradient, norm, hyper, param.getDecay());
    for (auto [name, value] : llvm::zip_equal(names, op.getResults()))
      lm::AssignOp::create(here, name, value);
    at.setInsertionPoint(here.getInsertionBlock(), here.getInsertionPoint());
  }

  /// One layer class updates the families, called for each layer; other parameters stand around
  /// the calls.
  void update(const llvm::MapVector<StringRef, Value> &sums, Value norm) {
    Value hyper = program.getArgumentNamed("hyper");
    llvm::MapVector<int64_t, SmallVector<lm::ParamOp>> families; // by the number of layers
    for (auto param : module.getOps<lm::ParamOp>()) {
      if (param.getFrozen())
        continue;
      if (param.getLayers())
        families[*param.getLayers()].push_back(param);
      else if (Value sum = sums.lookup(gradientOf(param, std::nullopt)))
        updateOne(b, param, sum, norm, hyper);
    }
    for (auto &[layers, params] : families) {
      llvm::erase_if(params,
                     [&](lm::ParamOp param) { return !sums.contains(gradientOf(param, 0)); });
      if (params.empty())
        continue;
      StringRef callee = makeUpdateClass(params, layers, families.size() > 1, norm, hyper);
      for (int64_t layer = 0; layer < layers; ++layer) {
        SmallVector<Value> operands{norm, hyper};
        for (lm::ParamOp param : params)
          operands.push_back(sums.lookup(gradientOf(param, layer)));
        lm::LayerCallOp::create(b, TypeRange(), callee, operands, layer);
      }
    }
  }

  StringRef makeUpdateClass(ArrayRef<lm::ParamOp> params, int64_t layers, bool several, Value norm,
                            Value hyper) {
    OpBuilder at(program);
    SmallVector<Type> types{norm.getType(), hyper.getType()};
    SmallVector<Attribute> names{b.getStringAttr("norm"), b.getStringAttr("hyper")};
    for (lm::ParamOp param : params) {
      types.push_back(param.getType());
      names.push_back(b.getStringAttr("gradient" + std::to_string(names.size() - 2)));
    }
    auto op = lm::LayerClassOp::create(
        at, b.getLoc(), several ? "update." + std::to_string(layers) : std::string("update"),
        b.getFunctionType(types, {}), b.getArrayAttr(names), nullptr, nullptr);
    SmallVector<Location> locations(types.size(), b.getLoc());
    Block *block = at.createBlock(&op.getBody(), {}, types, locations);
    for (auto [i, param] : llvm::enumerate(params))
      updateOne(at, param, block->getArgument(2 + i), block->getArgument(0), block->getArgument(1));
    lm::ReturnOp::create(at, b.getLoc(), ValueRange());
    return op.getSymName();
  }

  std::string gradientOf(lm::ParamOp param, std::optional<int64_t> layer) {
    return "gradient/" +
           (layer ? lm::memberName(param.getSymName(), *layer) : param.getSymName().str());
  }

  void finish(Value losses, Value norm, const llvm::MapVector<StringRef, Value> &sums) {
    SmallVector<Value> results{losses, norm};
    SmallVector<Attribute> names{b.getStringAttr("loss"), b.getStringAttr("grad_norm")};
    for (auto &[name, value] : sums) {
      names.push_back(b.getStringAttr(name));
      results.push_back(value);
    }
    lm::ReturnOp::create(b, results);
    program.setFunctionType(
        b.getFunctionType(program.getArgumentTypes(), ValueRange(results).getTypes()));
    program.setResultNamesAttr(b.getArrayAttr(names));
  }

  ModuleOp module;
  lm::ProgramOp gradients, program;
  lm::Optimizer rule;
  int64_t microBatches;
  ImplicitLocOpBuilder b;
};

struct LmStepPass : impl::LmStepBase<LmStepPass> {
  using LmStepBase::LmStepBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<lm::Optimizer> known = lm::symbolizeOptimizer(rule);
    if (!known) {
      module.emitError() << "unknown update rule '" << rule
                         << "'; expected adamw, adam_gpt1 or sgd";
      return signalPassFailure();
    }
    lm::ProgramOp gradients = lm::programFor(module, lm::Purpose::Gradients);
    if (!gradients) {
      module.emitError("has no lm.program gradients: run lm-differentiate first");
      return signalPassFailure();
    }
    if (microBatches < 1) {
      module.emitError() << microBatches << " micro-batches; expected 1 or more";
      return signalPassFailure();
    }
    StepBuilder(module, gradients, *known, microBatches).build();
  }
};

} // namespace
} // namespace ftlm
