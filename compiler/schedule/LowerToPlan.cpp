// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/StateKernels.h"
#include "compiler/schedule/Passes.h"
#include "dialects/dist/Dist.h"
#include "schema/WorkspaceSizes.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_PLANLOWER
#include "compiler/schedule/Passes.h.inc"

namespace {

using planir::BufferClass;

/// Elements that a thread should get of an elementwise kernel.
constexpr int64_t elementGrain = 16384;

/// The state of one parameter of the model.
struct Member {
  lm::ParamOp param;
  std::string name;
  Value value, gradient;
  SmallVector<Value> moments;
  /// With several micro-batches: the levels of the sum, for each use.
  SmallVector<SmallVector<Value>> levels;
};

class Lowering {
public:
  Lowering(ModuleOp module, ModuleOp kernels)
      : module(module), kernels(kernels), symbols(module), b(module.getLoc(), module.getContext()) {
    b.setInsertionPointToEnd(module.getBody());
    auto settings = module->getAttrOfType<DictionaryAttr>("lm.settings");
    auto number = [&](StringRef key) {
      auto attr = settings ? settings.getAs<IntegerAttr>(key) : nullptr;
      return attr ? attr.getInt() : 1;
    };
    time = number("time");
    threads = number("threads");
    microBatches = (number("batch") + number("micro_batch") - 1) / number("micro_batch");
  }

  LogicalResult run() {
    countUses();
    if (failed(declareParameters()))
      return failure();
    random = buffer("random", BufferClass::Input, RankedTensorType::get({2}, b.getI64Type()));
    SmallVector<lm::ProgramOp> programs(module.getOps<lm::ProgramOp>());
    for (lm::ProgramOp program : programs)
      if (failed(lowerProgram(program)))
        return failure();
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (isa<lm::ProgramOp, lm::LayerClassOp, lm::ParamOp>(op))
        op.erase();
    return success();
  }

  unsigned instructions = 0, inPlace = 0;

private:
  //===--- buffers ------------------------------------------------------------===//

  Value buffer(StringRef name, BufferClass kind, Type type) {
    return planir::BufferOp::create(b, planir::BufferType::get(b.getContext()), name, kind, type,
                                    IntegerAttr());
  }

  /// How many uses (lm.accumulate_grad) each parameter has.
  void countUses() {
    module.walk([&](lm::AccumulateGradOp op) {
      int64_t &count = uses[op.getParam()];
      count = std::max(count, op.getUse() + 1);
    });
  }

  LogicalResult declareParameters() {
    std::optional<lm::Optimizer> rule;
    llvm::StringMap<bool> updated;
    module.walk([&](lm::UpdateOp op) {
      rule = op.getRule();
      updated[op.getParam()] = true;
    });
    int64_t moments = !rule || *rule == lm::Optimizer::Sgd ? 0 : 2;
    int64_t layers = 0;
    for (auto param : module.getOps<lm::ParamOp>())
      layers = std::max(layers, param.getLayers().value_or(0));
    // Layer by layer, as checkpoints have it: what stands outside layers keeps its place around
    // them.
    SmallVector<lm::ParamOp> params(module.getOps<lm::ParamOp>());
    auto first = llvm::find_if(params, [](lm::ParamOp p) { return p.getLayers().has_value(); });
    for (auto it = params.begin(); it != first; ++it)
      declare(*it, std::nullopt, moments, updated.contains(it->getSymName()));
    for (int64_t layer = 0; layer < layers; ++layer)
      for (lm::ParamOp param : params)
        if (param.getLayers() && layer < *param.getLayers())
          declare(param, layer, moments, updated.contains(param.getSymName()));
    for (auto it = first; it != params.end(); ++it)
      if (!it->getLayers())
        declare(*it, std::nullopt, moments, updated.contains(it->getSymName()));
    return success();
  }

  void declare(lm::ParamOp param, std::optional<int64_t> layer, int64_t moments, bool updated) {
    Member member;
    member.param = param;
    member.name = layer ? lm::memberName(param.getSymName(), *layer) : param.getSymName().str();
    Type type = param.getType();
    member.value = buffer(member.name, BufferClass::Parameter, type);
    bool trained = updated && uses.contains(param.getSymName());
    if (trained) {
      member.gradient = buffer("gradient/" + member.name, BufferClass::Gradient, type);
      for (int64_t i = 0; i < moments; ++i)
        member.moments.push_back(buffer("moment" + std::to_string(i + 1) + "/" + member.name,
                                        BufferClass::Optimizer, type));
      if (microBatches > 1)
        for (int64_t use = 0; use < uses.lookup(param.getSymName()); ++use)
          member.levels.push_back(levels(member, use));
    }
    ArrayAttr stored;
    if (auto pieces = param.getStored()) {
      SmallVector<Attribute> renamed;
      for (auto piece : pieces->getAsRange<lm::StoredAttr>()) {
        std::string name = layer ? lm::memberName(piece.getName(), *layer) : piece.getName().str();
        renamed.push_back(
            lm::StoredAttr::get(b.getContext(), name, piece.getRow(), piece.getRows()));
      }
      stored = b.getArrayAttr(renamed);
    }
    planir::ParameterOp::create(b, member.name, member.value, member.gradient, member.moments, type,
                                param.getInit(), param.getDecay(), param.getViewAttr(), stored);
    members[{param.getSymName().str(), layer.value_or(-1)}] = order.size();
    order.push_back(std::move(member));
  }

  /// The levels of the sum over M micro-batches: 0 .. floor(log2 M). When M is a power of two the
  /// last level gets the whole sum when all others are spent, so it is the same buffer as the one
  /// below. The first use's top level is the gradient itself.
  SmallVector<Value> levels(Member &member, int64_t use) {
    int64_t top = llvm::Log2_64(static_cast<uint64_t>(microBatches));
    bool power = llvm::isPowerOf2_64(static_cast<uint64_t>(microBatches));
    int64_t buffers = power ? top : top + 1;
    SmallVector<Value> result;
    for (int64_t level = 0; level < buffers; ++level) {
      bool isGradient = use == 0 && level == buffers - 1;
      std::string name =
          "level" + std::to_string(level) + "." + std::to_string(use) + "/" + member.name;
      result.push_back(isGradient ? member.gradient
                                  : buffer(name, BufferClass::Gradient, member.param.getType()));
    }
    if (power)
      result.push_back(result.back());
    return result;
  }

  //===--- programs -----------------------------------------------------------===//

  LogicalResult lowerProgram(lm::ProgramOp program) {
    StringRef name = program.getSymName();
    OpBuilder::InsertionGuard guard(b);
    Value losses, output;
    SmallVector<Value> inputs;
    for (auto [argument, label] :
         llvm::zip_equal(program.getArguments(), program.getArgumentNames()))
      inputs.push_back(buffer((name + "/" + cast<StringAttr>(label).getValue()).str(),
                              BufferClass::Input, argument.getType()));
    examples = Value();
    if (name == "micro_batch") {
      auto tokens = cast<RankedTensorType>(program.getArgumentTypes().front());
      examples = buffer("micro_batch/examples", BufferClass::Input,
                        RankedTensorType::get({tokens.getShape()[0]}, b.getI32Type()));
      losses = buffer("losses", BufferClass::Output,
                      RankedTensorType::get({microBatches}, b.getF32Type()));
    } else if (name == "update") {
      hyper =
          buffer("update/hyper", BufferClass::Input, RankedTensorType::get({8}, b.getF32Type()));
      norm = buffer("grad_norm", BufferClass::Output, RankedTensorType::get({1}, b.getF32Type()));
    }
    auto plan = planir::ProgramOp::create(b, (name + ".plan").str(), time);
    b.createBlock(&plan.getBody());
    for (auto [input, label] : llvm::zip_equal(inputs, program.getArgumentNames()))
      planir::InputOp::create(b, cast<StringAttr>(label), input);
    if (name == "micro_batch") {
      planir::InputOp::create(b, "examples", examples);
      planir::InputOp::create(b, "random", random);
    } else if (name == "update") {
      planir::InputOp::create(b, "hyper", hyper);
    }

    values.clear();
    for (auto [argument, input] : llvm::zip_equal(program.getArguments(), inputs))
      values[argument] = input;
    pending.clear();
    SmallVector<Value> results;
    if (failed(lowerBody(program.getBody().front(), std::nullopt, results)))
      return failure();
    if (name == "micro_batch") {
      planir::CopyOp::create(b, "loss", results.front(), losses, true);
      planir::OutputOp::create(b, "losses", losses);
      finishUses();
    } else if (name == "update") {
      planir::OutputOp::create(b, "grad_norm", norm);
    } else {
      planir::OutputOp::create(b, name == "generate" ? "logits" : "loss", results.front());
    }
    plan.setSymName(name);
    instructions += static_cast<unsigned>(plan.getBody().front().getOperations().size());
    return success();
  }

  /// Lowers the ops of a block; `results` are the buffers that it returns. Values are mapped in
  /// `values`.
  LogicalResult lowerBody(Block &block, std::optional<int64_t> layer, SmallVector<Value> &results) {
    for (Operation &op : block) {
      LogicalResult done =
          llvm::TypeSwitch<Operation *, LogicalResult>(&op)
              .Case([&](lm::UseOp o) {
                values[o.getResult()] = member(o.getParam(), layer).value;
                return success();
              })
              .Case([&](lm::LayerCallOp o) { return lowerCall(o); })
              .Case([&](lm::LinearOp o) { return lowerLinear(o, layer); })
              .Case([&](lm::LinearDataGradOp o) { return lowerDataGrad(o, layer); })
              .Case([&](lm::LinearWeightGradOp o) { return lowerWeightGrad(o, layer); })
              .Case([&](lm::AttentionOp o) { return lowerAttention(o, layer); })
              .Case([&](lm::AttentionGradOp o) { return lowerAttentionGrad(o, layer); })
              .Case([&](dist::LaunchOp o) { return lowerLaunch(o, layer); })
              .Case([&](lm::AccumulateGradOp o) { return lowerAccumulate(o, layer); })
              .Case([&](lm::GradNormOp o) { return lowerNorm(o); })
              .Case([&](lm::UpdateOp o) { return lowerUpdate(o); })
              .Case([&](lm::ReturnOp o) {
                for (Value value : o.getOperands())
                  results.push_back(values.lookup(value));
                return success();
              })
              .Default([](Operation *o) {
                return o->emitOpError(
                    "has no instruction: run dist-fuse and dist-outline-kernels first");
              });
      if (failed(done))
        return failure();
    }
    return success();
  }

  Member &member(StringRef name, std::optional<int64_t> layer) {
    return order[members.at({name.str(), layer && name.contains('*') ? *layer : -1})];
  }

  /// The name of an instruction: the layer's and the op's own.
  std::string nameOf(Operation *op, StringRef what, std::optional<int64_t> layer) {
    return layer ? "layer " + std::to_string(*layer) + ": " + what.str() : what.str();
  }
  /// A weight's name without its last part: "h.3.mlp.c_fc".
  std::string weightOf(Value weight, std::optional<int64_t> layer) {
    if (auto use = weight.getDefiningOp<lm::UseOp>()) {
      std::string name = member(use.getParam(), layer).name;
      size_t dot = name.rfind('.');
      return dot == std::string::npos ? name : name.substr(0, dot);
    }
    return "dropped table";
  }

  /// A new buffer for a value, unless it was given its place before.
  Value place(Value value, const Twine &name) {
    Value &found = values[value];
    if (!found)
      found = buffer(name.str(), BufferClass::Activation, value.getType());
    return found;
  }

  LogicalResult lowerCall(lm::LayerCallOp call) {
    auto callee = symbols.lookup<lm::LayerClassOp>(call.getCallee());
    for (auto [argument, input] : llvm::zip_equal(callee.getArguments(), call.getInputs()))
      values[argument] = values.lookup(input);
    // The body is lowered once a call: what an earlier call mapped is forgotten.
    for (Operation &op : callee.getBody().front())
      for (Value result : op.getResults())
        values.erase(result);
    // What the caller reads after the call must not be overwritten in it.
    SmallVector<Value> results;
    llvm::SmallDenseSet<Value> before = live;
    for (Value input : call.getInputs())
      if (!isLastUse(input, call))
        live.insert(values.lookup(input));
    if (failed(lowerBody(callee.getBody().front(), call.getLayer(), results)))
      return failure();
    live = before;
    for (auto [result, lowered] : llvm::zip_equal(call.getResults(), results))
      values[result] = lowered;
    return success();
  }

  /// Is `op` the last reader of the value in its block?
  bool isLastUse(Value value, Operation *op) {
    return llvm::all_of(value.getUsers(),
                        [&](Operation *user) { return user == op || user->isBeforeInBlock(op); });
  }

  //===--- matrix products ------------------------------------------------------===//

  static ArrayRef<int64_t> shapeOf(Value v) {
    return cast<RankedTensorType>(v.getType()).getShape();
  }
  static int64_t rowsOf(Value v) {
    auto type = cast<RankedTensorType>(v.getType());
    return type.getNumElements() / type.getShape().back();
  }

  LogicalResult lowerLinear(lm::LinearOp o, std::optional<int64_t> layer) {
    int64_t k = shapeOf(o.getInput()).back(), n = shapeOf(o.getResult()).back();
    std::string name = weightOf(o.getWeight(), layer);
    Value bias = o.getBias() ? values.lookup(o.getBias()) : Value();
    planir::GemmOp::create(b, name, values.lookup(o.getInput()), values.lookup(o.getWeight()), bias,
                           place(o.getResult(), name), rowsOf(o.getInput()), n, k,
                           ArrayRef<int64_t>{k, o.getTransposed() ? k : n, n}, false,
                           o.getTransposed());
    return success();
  }

  LogicalResult lowerDataGrad(lm::LinearDataGradOp o, std::optional<int64_t> layer) {
    int64_t in = shapeOf(o.getResult()).back(), out = shapeOf(o.getAdjoint()).back();
    std::string name = weightOf(o.getWeight(), layer) + " data gradient";
    planir::GemmOp::create(b, name, values.lookup(o.getAdjoint()), values.lookup(o.getWeight()),
                           Value(), place(o.getResult(), name), rowsOf(o.getAdjoint()), in, out,
                           ArrayRef<int64_t>{out, o.getTransposed() ? in : out, in}, false,
                           !o.getTransposed());
    return success();
  }

  LogicalResult lowerWeightGrad(lm::LinearWeightGradOp o, std::optional<int64_t> layer) {
    int64_t in = shapeOf(o.getInput()).back(), out = shapeOf(o.getAdjoint()).back();
    int64_t rows = rowsOf(o.getInput());
    std::string name = gradientName(o.getResult(), layer);
    Value result = placeGradient(o.getResult(), layer, name);
    Value input = values.lookup(o.getInput()), adjoint = values.lookup(o.getAdjoint());
    if (!o.getTransposed()) {
      planir::GemmOp::create(b, name, input, adjoint, Value(), result, in, out, rows,
                             ArrayRef<int64_t>{in, out, out}, true, false);
      return success();
    }
    if (int64_t stored = shapeOf(o.getResult())[0]; stored > out) {
      auto tail = RankedTensorType::get({stored - out, in}, b.getF32Type());
      Value rest = planir::ViewOp::create(b, result.getType(), result, name + " unused rows",
                                          out * in * 4, tail);
      planir::ZeroOp::create(b, name + " unused rows", rest);
    }
    planir::GemmOp::create(b, name, adjoint, input, Value(), result, out, in, rows,
                           ArrayRef<int64_t>{out, in, in}, true, false);
    return success();
  }

  //===--- attention -----------------------------------------------------------===//

  Value workspace(const Twine &name, int64_t steps, int64_t headSize) {
    int64_t bytes = attentionWorkspaceBytes(steps, headSize) * threads;
    return buffer((name + " workspace").str(), BufferClass::Workspace,
                  RankedTensorType::get({bytes / 4}, b.getF32Type()));
  }

  /// The rate, the global site and the buffers of random numbers of an attention.
  template <typename Op>
  std::tuple<FloatAttr, IntegerAttr, SmallVector<Value>> randomOf(Op o,
                                                                  std::optional<int64_t> layer) {
    if (!o.getDropout())
      return {nullptr, nullptr, {}};
    return {o.getDropoutAttr(), b.getI64IntegerAttr(lm::globalSite(*o.getSite(), layer)),
            SmallVector<Value>{random, examples}};
  }

  LogicalResult lowerAttention(lm::AttentionOp o, std::optional<int64_t> layer) {
    ArrayRef<int64_t> shape = shapeOf(o.getQkv());
    std::string name = nameOf(o, "attention", layer);
    auto [rate, site, buffers] = randomOf(o, layer);
    Value out = place(o.getResult(), name), lse = place(o.getLse(), name + " lse");
    planir::AttentionOp::create(
        b, b.getStringAttr(name), values.lookup(o.getQkv()), out, lse,
        workspace(name, shape[1], o.getHeadSize()), b.getI64IntegerAttr(shape[0]),
        b.getI64IntegerAttr(shape[1]), o.getHeadsAttr(), o.getKvHeadsAttr(),
        b.getI64IntegerAttr(o.getHeadSize()), o.getScaleAttr(), rate, site, buffers);
    return success();
  }

  LogicalResult lowerAttentionGrad(lm::AttentionGradOp o, std::optional<int64_t> layer) {
    ArrayRef<int64_t> shape = shapeOf(o.getQkv());
    int64_t headSize = shape[2] / (o.getHeads() + 2 * o.getKvHeads());
    std::string name = nameOf(o, "attention gradient", layer);
    auto [rate, site, buffers] = randomOf(o, layer);
    Value result = place(o.getResult(), name);
    planir::AttentionGradOp::create(
        b, b.getStringAttr(name), values.lookup(o.getAdjoint()), values.lookup(o.getQkv()),
        values.lookup(o.getOutput()), values.lookup(o.getLse()), result,
        workspace(name, shape[1], headSize), b.getI64IntegerAttr(shape[0]),
        b.getI64IntegerAttr(shape[1]), o.getHeadsAttr(), o.getKvHeadsAttr(),
        b.getI64IntegerAttr(headSize), o.getScaleAttr(), rate, site, buffers);
    return success();
  }

  //===--- kernels --------------------------------------------------------------===//

  LogicalResult lowerLaunch(dist::LaunchOp o, std::optional<int64_t> layer) {
    std::string name = nameOf(o, o.getLabel(), layer);
    SmallVector<Value> arguments;
    for (Value input : o.getInputs())
      arguments.push_back(values.lookup(input));
    SmallVector<int64_t> writes, updates;
    for (auto [i, result] : llvm::enumerate(o.getResults())) {
      if (result.hasOneUse() && isa<lm::AccumulateGradOp>(*result.user_begin()))
        placeGradient(result, layer, gradientName(result, layer));
      else if (int64_t input = o.getInPlace() ? (*o.getInPlace())[i] : -1;
               input >= 0 && mayOverwrite(o, o.getInputs()[input])) {
        values[result] = arguments[input];
        updates.push_back(static_cast<int64_t>(arguments.size()));
        ++inPlace;
      }
      writes.push_back(static_cast<int64_t>(arguments.size()));
      arguments.push_back(place(result, name));
    }
    DenseI64ArrayAttr scalars;
    if (o.getRandom()) {
      arguments.push_back(random);
      arguments.push_back(examples ? examples : random);
      scalars = b.getDenseI64ArrayAttr({lm::globalSite(0, layer)});
    }
    planir::KernelOp::create(b, name, o.getKernel(), arguments, writes,
                             static_cast<int64_t>(o.getUnits()), static_cast<int64_t>(o.getGrain()),
                             scalars, updates.empty() ? nullptr : b.getDenseI64ArrayAttr(updates));
    return success();
  }

  /// May a kernel write over this input's buffer: an activation that nothing reads afterwards?
  bool mayOverwrite(dist::LaunchOp o, Value input) {
    Value place = values.lookup(input);
    auto op = place.getDefiningOp<planir::BufferOp>();
    if (!op || op.getBufferClass() != BufferClass::Activation || live.contains(place))
      return false;
    if (llvm::count(o.getInputs(), input) != 1)
      return false;
    // Every value that lies in this buffer must be done with, not just this one.
    return isLastUse(input, o) &&
           llvm::none_of(input.getUsers(),
                         [](Operation *user) { return isa<lm::ReturnOp>(user); }) &&
           !reusedByOthers(input, place, o);
  }

  /// Does another value in the same block lie in `place` and is read after `op`?
  bool reusedByOthers(Value input, Value place, Operation *op) {
    for (Operation &other : *op->getBlock())
      for (Value value : other.getResults())
        if (value != input && values.lookup(value) == place && !isLastUse(value, op))
          return true;
    for (Value value : op->getBlock()->getArguments())
      if (value != input && values.lookup(value) == place && !isLastUse(value, op))
        return true;
    return false;
  }

  //===--- gradients and the update -------------------------------------------------===//

  std::string gradientName(Value gradient, std::optional<int64_t> layer) {
    for (Operation *user : gradient.getUsers())
      if (auto accumulate = dyn_cast<lm::AccumulateGradOp>(user))
        return member(accumulate.getParam(), layer).name + " gradient";
    return "gradient";
  }

  /// With one micro-batch the first use's gradient is written where the update reads it.
  Value placeGradient(Value gradient, std::optional<int64_t> layer, const std::string &name) {
    if (microBatches == 1 && gradient.hasOneUse() && !values.lookup(gradient))
      if (auto accumulate = dyn_cast<lm::AccumulateGradOp>(*gradient.user_begin());
          accumulate && accumulate.getUse() == 0)
        values[gradient] = member(accumulate.getParam(), layer).gradient;
    return place(gradient, name);
  }

  LogicalResult lowerAccumulate(lm::AccumulateGradOp o, std::optional<int64_t> layer) {
    Member &m = member(o.getParam(), layer);
    Value source = values.lookup(o.getGradient());
    if (microBatches > 1) {
      planir::AccumulateOp::create(b, m.name + " sum", source, m.levels[o.getUse()],
                                   codegen::addKernel(kernels),
                                   m.param.getTensorType().getNumElements());
      return success();
    }
    if (source != m.gradient)
      pending.push_back({&m, o.getUse(), source});
    return success();
  }

  /// One micro-batch: adds the further uses to the gradient, in their order.
  void finishUses() {
    llvm::stable_sort(pending, [](const auto &l, const auto &r) { return l.use < r.use; });
    for (Pending &use : pending) {
      if (use.use == 0)
        planir::CopyOp::create(b, use.member->name + " gradient", use.source, use.member->gradient,
                               false);
      else
        addTo(use.member->gradient, use.source, use.member->gradient, use.member->name,
              use.member->param.getTensorType().getNumElements());
    }
  }

  /// result = lhs + rhs, where result is one of the two.
  void addTo(Value lhs, Value rhs, Value result, StringRef name, int64_t elements) {
    planir::KernelOp::create(b, (name + " sum").str(), codegen::addKernel(kernels),
                             ValueRange{lhs, rhs, result}, ArrayRef<int64_t>{2}, elements,
                             elementGrain, nullptr, nullptr);
  }

  LogicalResult lowerNorm(lm::GradNormOp o) {
    int64_t chunks = 0;
    for (Member &m : order) {
      if (!m.gradient)
        continue;
      int64_t elements = m.param.getTensorType().getNumElements();
      // What the levels hold after the last micro-batch, lowest first; then the uses in order.
      SmallVector<Value> sums;
      for (ArrayRef<Value> levels : m.levels) {
        Value sum;
        for (int64_t level = 0; level < static_cast<int64_t>(levels.size()); ++level)
          if (microBatches >> level & 1) {
            if (sum)
              addTo(levels[level], sum, levels[level], m.name, elements);
            sum = levels[level];
          }
        sums.push_back(sum);
      }
      for (Value sum : llvm::drop_begin(sums, std::min<size_t>(1, sums.size())))
        addTo(m.gradient, sum, m.gradient, m.name, elements);
      chunks += (elements + codegen::normChunk - 1) / codegen::normChunk;
    }
    Value partials = buffer("norm partials", BufferClass::Workspace,
                            RankedTensorType::get({chunks}, b.getF32Type()));
    int64_t at = 0;
    for (Member &m : order) {
      if (!m.gradient)
        continue;
      int64_t elements = m.param.getTensorType().getNumElements();
      int64_t count = (elements + codegen::normChunk - 1) / codegen::normChunk;
      Value part = planir::ViewOp::create(b, partials.getType(), partials, "norm of " + m.name,
                                          at * 4, RankedTensorType::get({count}, b.getF32Type()));
      planir::KernelOp::create(b, m.name + " norm", codegen::sumSquaresKernel(kernels, elements),
                               ValueRange{m.gradient, part}, ArrayRef<int64_t>{1}, count, 4,
                               nullptr, nullptr);
      at += count;
    }
    planir::KernelOp::create(b, "gradient norm", codegen::normKernel(kernels, chunks),
                             ValueRange{partials, norm}, ArrayRef<int64_t>{1}, 1, 1, nullptr,
                             nullptr);
    values[o.getResult()] = norm;
    return success();
  }

  LogicalResult lowerUpdate(lm::UpdateOp o) {
    for (Member &m : order) {
      if (m.param.getSymName() != o.getParam() || !m.gradient)
        continue;
      SmallVector<Value> arguments{m.value, m.gradient};
      llvm::append_range(arguments, m.moments);
      arguments.push_back(hyper);
      arguments.push_back(norm);
      SmallVector<int64_t> written{0};
      for (size_t i = 0; i < m.moments.size(); ++i)
        written.push_back(static_cast<int64_t>(2 + i));
      planir::KernelOp::create(b, m.name + " update",
                               codegen::updateKernel(kernels, o.getRule(), o.getDecay()), arguments,
                               written, m.param.getTensorType().getNumElements(), elementGrain,
                               nullptr, b.getDenseI64ArrayAttr(written));
    }
    return success();
  }

  struct Pending {
    Member *member;
    int64_t use;
    Value source;
  };

  ModuleOp module, kernels;
  SymbolTable symbols;
  ImplicitLocOpBuilder b;
  int64_t time = 1, threads = 1, microBatches = 1;
  llvm::StringMap<int64_t> uses;
  std::vector<Member> order;
  std::map<std::pair<std::string, int64_t>, size_t> members; // family and layer, -1 outside layers
  DenseMap<Value, Value> values;                             // of tensors: their buffers
  llvm::SmallDenseSet<Value> live;                           // buffers that a caller still reads
  SmallVector<Pending> pending;
  Value random, examples, hyper, norm;
};

struct PlanLowerPass : impl::PlanLowerBase<PlanLowerPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto kernels = module.lookupSymbol<ModuleOp>("kernels");
    if (!kernels) {
      module.emitError("has no module @kernels: run dist-outline-kernels first");
      return signalPassFailure();
    }
    Lowering lowering(module, kernels);
    if (failed(lowering.run()))
      return signalPassFailure();
    instructions += lowering.instructions;
    inPlace += lowering.inPlace;
  }
};

} // namespace
} // namespace ftlm
