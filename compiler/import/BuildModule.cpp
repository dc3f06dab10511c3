// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/BuildModule.h"

#include "dialects/lm/Lm.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace ftlm {
namespace {

/// Builds the module of one description; members hold what every method needs.
class ModuleBuilder {
public:
  ModuleBuilder(MLIRContext &context, const ModelDescription &model, const ImportOptions &options)
      : model(model), options(options),
        b(NameLoc::get(StringAttr::get(&context, model.name)), &context) {}

  OwningOpRef<ModuleOp> build() {
    OwningOpRef<ModuleOp> module(ModuleOp::create(b.getLoc(), model.name));
    b.setInsertionPointToEnd(module->getBody());
    settings(*module);
    parameters();
    training = true;
    layerClass("block", options.microBatch);
    lossProgram();
    training = false;
    layerClass("block.generate", 1);
    nextLogitsProgram();
    return module;
  }

private:
  bool gpt1() const { return model.naming == Naming::Gpt1; }
  int64_t tableRows() const { return model.vocabulary + model.specials + model.positions; }
  /// Columns of the logits.
  int64_t softmax() const {
    if (!gpt1())
      return model.vocabulary;
    return model.vocabulary + model.specials + (model.softmaxOverPositions ? options.time : 0);
  }
  RankedTensorType f32(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, b.getF32Type());
  }
  RankedTensorType i32(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, b.getI32Type());
  }

  void settings(ModuleOp module) {
    auto number = [&](StringRef name, int64_t value) {
      return b.getNamedAttr(name, b.getI64IntegerAttr(value));
    };
    auto text = [&](StringRef name, StringRef value) {
      return b.getNamedAttr(name, b.getStringAttr(value));
    };
    module->setAttr(
        "lm.settings",
        b.getDictionaryAttr(
            {text("model", model.name), text("config_json", model.configJson),
             text("objective", "lm"), text("precision", "fp32"),
             text("optimizer", options.optimizer), number("batch", options.batch),
             number("micro_batch", options.microBatch), number("time", options.time),
             number("vocabulary", model.vocabulary + model.specials), number("softmax", softmax()),
             number("threads", options.threads), number("generate_batch", 1)}));
  }

  //===--- parameters -------------------------------------------------------===//

  std::string weightName(StringRef base) { return (base + (gpt1() ? ".w" : ".weight")).str(); }
  std::string biasName(StringRef base) { return (base + (gpt1() ? ".b" : ".bias")).str(); }
  std::string gainName(StringRef base) { return (base + (gpt1() ? ".g" : ".weight")).str(); }
  std::string layerBase(StringRef part) {
    return gpt1() ? ("h*." + part).str() : (model.prefix + "h.*." + part).str();
  }

  /// `stored` lists {name, rows} of the pieces in a file; a layer's name in GPT-1's Hugging Face
  /// form differs.
  void param(StringRef name, RankedTensorType type, double init, bool normal, bool decay,
             ArrayRef<std::pair<std::string, int64_t>> stored = {}) {
    bool family = name.contains('*');
    SmallVector<Attribute> pieces;
    int64_t row = 0;
    for (auto &[piece, rows] : stored) {
      pieces.push_back(lm::StoredAttr::get(b.getContext(), piece, row, rows));
      row += rows;
    }
    lm::ParamOp::create(b, name, type, family ? b.getI64IntegerAttr(model.layers) : nullptr,
                        lm::InitAttr::get(b.getF64FloatAttr(init),
                                          normal ? lm::InitKind::Normal : lm::InitKind::Constant),
                        decay, /*frozen=*/false, pieces.empty() ? nullptr : b.getArrayAttr(pieces),
                        gpt1() && name == "we" && tableView() < type.getShape()[0]
                            ? b.getI64IntegerAttr(tableView())
                            : nullptr);
  }
  int64_t tableView() const { return model.vocabulary + model.specials + options.time; }

  /// The name that a Hugging Face file has for a GPT-1 layer's parameter.
  SmallVector<std::pair<std::string, int64_t>> storedAs(StringRef base, StringRef suffix,
                                                        int64_t rows) {
    if (!gpt1())
      return {};
    return {{("h.*." + base + suffix).str(), rows}};
  }

  void linearParams(StringRef base, int64_t in, int64_t out, double stddev) {
    std::string name = layerBase(base);
    param(weightName(name), f32({in, out}), stddev, true, true, storedAs(base, ".weight", in));
    param(biasName(name), f32({out}), 0, false, false, storedAs(base, ".bias", out));
  }
  void normParams(StringRef base) {
    std::string name = layerBase(base);
    param(gainName(name), f32({model.width}), 1, false, false,
          storedAs(base, ".weight", model.width));
    param(biasName(name), f32({model.width}), 0, false, false,
          storedAs(base, ".bias", model.width));
  }

  void parameters() {
    double stddev = model.initStddev;
    double residual = model.scaleResidualInit
                          ? stddev / std::sqrt(2.0 * static_cast<double>(model.layers))
                          : stddev;
    int64_t width = model.width;
    if (gpt1()) {
      param("we", f32({tableRows(), width}), stddev, true, true,
            {{"tokens_embed.weight", model.vocabulary + model.specials},
             {"positions_embed.weight", model.positions}});
    } else {
      param(model.prefix + "wte.weight", f32({model.vocabulary, width}), stddev, true, true);
      param(model.prefix + "wpe.weight", f32({model.positions, width}), stddev, true, true);
    }
    if (model.preNorm)
      normParams("ln_1");
    linearParams("attn.c_attn", width, 3 * width, stddev);
    linearParams("attn.c_proj", width, width, residual);
    if (!model.preNorm)
      normParams("ln_1");
    if (model.preNorm)
      normParams("ln_2");
    linearParams("mlp.c_fc", width, model.mlpWidth, stddev);
    linearParams("mlp.c_proj", model.mlpWidth, width, residual);
    if (!model.preNorm)
      normParams("ln_2");
    if (model.finalNorm) {
      std::string name = gpt1() ? "ln_f" : model.prefix + "ln_f";
      param(gainName(name), f32({width}), 1, false, false);
      param(biasName(name), f32({width}), 0, false, false);
    }
  }

  //===--- ops --------------------------------------------------------------===//

  Value use(StringRef name, ArrayRef<int64_t> shape) {
    return lm::UseOp::create(b, f32(shape), name);
  }

  Value linear(Value x, StringRef base, int64_t in, int64_t out) {
    std::string name = layerBase(base);
    SmallVector<int64_t> shape(cast<RankedTensorType>(x.getType()).getShape());
    shape.back() = out;
    Value weight = use(weightName(name), {in, out});
    Value bias = use(biasName(name), {out});
    return lm::LinearOp::create(b, f32(shape), x, weight, bias, false);
  }
  Value norm(Value x, StringRef name) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(x.getType()).getShape();
    Value gain = use(gainName(name), {model.width}), bias = use(biasName(name), {model.width});
    return lm::NormOp::create(b, x.getType(), f32(shape.drop_back()), f32(shape.drop_back()),
                              lm::NormKind::LayerNorm, x, gain, bias, model.epsilon)
        .getResult();
  }
  /// Do layers draw random numbers, or anything at all?
  bool randomLayers() const {
    return training && (model.attentionDropout > 0 || model.residualDropout > 0);
  }
  bool randomProgram() const { return randomLayers() || (training && model.embeddingDropout > 0); }

  /// Dropout of activations, or of the table, which has no examples.
  Value dropout(Value x, double rate, int64_t site, bool table = false) {
    if (rate == 0 || !training)
      return x;
    return lm::DropoutOp::create(b, x.getType(), x, b.getF64FloatAttr(rate),
                                 b.getI64IntegerAttr(site), random, table ? Value() : examples);
  }
  Value attentionBlock(Value x, int64_t batch) {
    int64_t width = model.width, heads = model.heads;
    Value qkv = linear(x, "attn.c_attn", width, 3 * width);
    FloatAttr rate = training && model.attentionDropout > 0
                         ? b.getF64FloatAttr(model.attentionDropout)
                         : nullptr;
    double scale = 1.0 / std::sqrt(static_cast<double>(width / heads));
    Value out = lm::AttentionOp::create(
                    b, f32({batch, options.time, width}), f32({batch, heads, options.time}), qkv,
                    Value(), Value(), b.getI64IntegerAttr(heads), b.getI64IntegerAttr(heads),
                    b.getF64FloatAttr(scale), rate, rate ? b.getI64IntegerAttr(0) : nullptr,
                    rate ? random : Value(), rate ? examples : Value())
                    .getResult();
    return dropout(linear(out, "attn.c_proj", width, width), model.residualDropout, 1);
  }
  Value mlpBlock(Value x) {
    Value hidden = linear(x, "mlp.c_fc", model.width, model.mlpWidth);
    Value active = lm::ActivationOp::create(b, hidden.getType(),
                                            *lm::symbolizeActivation(model.activation), hidden);
    return dropout(linear(active, "mlp.c_proj", model.mlpWidth, model.width), model.residualDropout,
                   2);
  }

  void layerClass(StringRef name, int64_t batch) {
    OpBuilder::InsertionGuard guard(b);
    Type type = f32({batch, options.time, model.width});
    SmallVector<Type> types{type};
    SmallVector<StringRef> names{"x"};
    if (randomLayers())
      addRandom(types, names, batch);
    auto op = lm::LayerClassOp::create(b, name, b.getFunctionType(types, {type}),
                                       b.getStrArrayAttr(names), nullptr, nullptr);
    SmallVector<Location> locations(types.size(), b.getLoc());
    Block *block = b.createBlock(&op.getBody(), {}, types, locations);
    Value x = block->getArgument(0);
    if (randomLayers())
      takeRandom(block);
    std::string first = layerBase("ln_1"), second = layerBase("ln_2");
    if (model.preNorm) {
      x = lm::AddOp::create(b, x, attentionBlock(norm(x, first), batch));
      x = lm::AddOp::create(b, x, mlpBlock(norm(x, second)));
    } else {
      x = norm(lm::AddOp::create(b, x, attentionBlock(x, batch)), first);
      x = norm(lm::AddOp::create(b, x, mlpBlock(x)), second);
    }
    lm::ReturnOp::create(b, x);
  }

  /// The inputs that random numbers are keyed by.
  void addRandom(SmallVectorImpl<Type> &types, SmallVectorImpl<StringRef> &names, int64_t batch) {
    types.push_back(RankedTensorType::get({2}, b.getI64Type()));
    types.push_back(i32({batch}));
    names.append({"random", "examples"});
  }
  void takeRandom(Block *block) {
    examples = block->getArguments().back();
    random = block->getArguments().drop_back().back();
  }

  /// The hidden states of all positions and the table of the output projection.
  std::pair<Value, Value> body(Value tokens, int64_t batch, StringRef layer) {
    int64_t width = model.width;
    Type type = f32({batch, options.time, width});
    Value table, positions, x;
    if (gpt1()) {
      table = use("we", {tableRows(), width});
      if (model.dropoutOnTable)
        table = dropout(table, model.embeddingDropout, 0, /*table=*/true);
      x = lm::EmbeddingOp::create(b, type, tokens, table, table, model.vocabulary + model.specials);
    } else {
      table = use(model.prefix + "wte.weight", {model.vocabulary, width});
      positions = use(model.prefix + "wpe.weight", {model.positions, width});
      x = lm::EmbeddingOp::create(b, type, tokens, table, positions, 0);
    }
    if (!model.dropoutOnTable)
      x = dropout(x, model.embeddingDropout, 0);
    for (int64_t i = 0; i < model.layers; ++i)
      x = lm::LayerCallOp::create(b, TypeRange(type), layer,
                                  randomLayers() ? ValueRange{x, random, examples} : ValueRange{x},
                                  i)
              .getResult(0);
    if (model.finalNorm)
      x = norm(x, gpt1() ? "ln_f" : model.prefix + "ln_f");
    return {x, table};
  }

  lm::ProgramOp program(lm::Purpose purpose, StringRef name, ArrayRef<Type> arguments,
                        ArrayRef<StringRef> names, StringRef resultName, Type result) {
    auto op = lm::ProgramOp::create(b, purpose, name, b.getFunctionType(arguments, {result}),
                                    b.getStrArrayAttr(names), b.getStrArrayAttr({resultName}),
                                    nullptr, nullptr);
    SmallVector<Location> locations(arguments.size(), b.getLoc());
    b.createBlock(&op.getBody(), {}, arguments, locations);
    return op;
  }

  void lossProgram() {
    OpBuilder::InsertionGuard guard(b);
    int64_t batch = options.microBatch, time = options.time;
    Type rows = f32({batch, time});
    SmallVector<Type> types{i32({batch, time}), i32({batch, time}), rows};
    SmallVector<StringRef> names{"tokens", "targets", "weights"};
    if (randomProgram())
      addRandom(types, names, batch);
    auto op = program(lm::Purpose::Objective, "loss", types, names, "loss", f32({}));
    if (randomProgram())
      takeRandom(&op.getBody().front());
    auto [x, table] = body(op.getBody().getArgument(0), batch, "block");
    Value logits = lm::LinearOp::create(b, f32({batch, time, softmax()}), x, table, nullptr, true);
    auto loss = lm::CrossEntropyOp::create(b, rows, rows, logits, op.getBody().getArgument(1),
                                           op.getBody().getArgument(2));
    lm::ReturnOp::create(b, lm::SumOp::create(b, f32({}), loss.getLosses()).getResult());
  }

  void nextLogitsProgram() {
    OpBuilder::InsertionGuard guard(b);
    auto op = program(lm::Purpose::Generate, "generate", {i32({1, options.time}), i32({1})},
                      {"tokens", "positions"}, "logits", f32({1, softmax()}));
    auto [x, table] = body(op.getBody().getArgument(0), 1, "block.generate");
    Value last =
        lm::TakePositionOp::create(b, f32({1, model.width}), x, op.getBody().getArgument(1));
    lm::ReturnOp::create(
        b, lm::LinearOp::create(b, f32({1, softmax()}), last, table, nullptr, true).getResult());
  }

  const ModelDescription &model;
  const ImportOptions &options;
  ImplicitLocOpBuilder b;
  bool training = false;  // is what is built for training?
  Value random, examples; // what random numbers are keyed by, in the function being built
};

} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> buildModule(MLIRContext &context, ModelDescription model,
                                                  ImportOptions options) {
  if (options.time == 0)
    options.time = model.defaultTime ? model.defaultTime : model.positions;
  if (options.batch == 0)
    options.batch = options.microBatch ? options.microBatch : model.defaultBatch;
  if (options.microBatch == 0)
    options.microBatch = std::min(model.defaultMicroBatch, options.batch);
  auto fail = [&](const auto &text) {
    return llvm::createStringError(model.name + ": " + text.str());
  };
  if (options.time < 1 || options.time > model.positions)
    return fail(
        llvm::formatv("a sequence length of {0} is not within 1 to {1}, the positions of the model",
                      options.time, model.positions));
  if (options.batch < 1 || options.microBatch < 1)
    return fail(llvm::formatv("batch {0} and micro-batch {1} must be at least 1", options.batch,
                              options.microBatch));
  if (options.microBatch > options.batch)
    return fail(llvm::formatv("a micro-batch of {0} is larger than the batch of {1}",
                              options.microBatch, options.batch));
  if (options.threads == 0)
    options.threads = 1;
  if (options.threads < 1)
    return fail(llvm::formatv("{0} threads; expected 1 or more", options.threads));
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1))
    return fail(llvm::formatv("a dropout rate of {0}; expected 0 <= rate < 1",
                              llvm::format("%g", *options.dropout)));
  if (!lm::symbolizeOptimizer(options.optimizer))
    return fail(llvm::formatv("the optimizer '{0}' is unknown; expected adamw, adam_gpt1 or sgd",
                              options.optimizer));
  if (options.dropout)
    model.embeddingDropout = model.attentionDropout = model.residualDropout = *options.dropout;
  context.loadDialect<lm::LmDialect>();
  OwningOpRef<ModuleOp> module = ModuleBuilder(context, model, options).build();
  if (failed(verify(*module)))
    return fail(llvm::formatv("the importer made a module that does not verify"));
  return module;
}

} // namespace ftlm
