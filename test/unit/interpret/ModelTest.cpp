// SPDX-License-Identifier: Apache-2.0
// Whole models: the loss and its gradient against values that PyTorch computed in float64, and the
// differentiation pass against central differences of @loss.
#include "compiler/differentiate/Passes.h"
#include "compiler/import/BuildModule.h"
#include "runtime/io/Safetensors.h"
#include "test/unit/interpret/InterpretTesting.h"

#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace mlir;

namespace ftlm::interpret {
namespace {

constexpr uint64_t seed = 20240607;

OwningOpRef<ModuleOp> import(Diagnosed &diagnosed, llvm::Expected<ModelDescription> model,
                             const ImportOptions &options) {
  if (!model) {
    ADD_FAILURE() << llvm::toString(model.takeError());
    return {};
  }
  auto module = buildModule(diagnosed.context(), *model, options);
  if (!module) {
    ADD_FAILURE() << llvm::toString(module.takeError());
    return {};
  }
  return std::move(*module);
}

/// The imported module after the differentiation pass.
OwningOpRef<ModuleOp> differentiate(Diagnosed &diagnosed, ModuleOp module) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager passes(module.getContext());
  passes.addPass(createLmDifferentiate());
  EXPECT_TRUE(succeeded(passes.run(*copy))) << diagnosed.text();
  return copy;
}

/// Runs forward and backward pass; returns the loss, and the gradients by the names of their
/// parameters, summed over the uses.
double runGradients(Diagnosed &diagnosed, ModuleOp module, Interpreter &interpreter,
                    const Inputs &inputs, llvm::StringMap<Tensor> &gradients) {
  auto results = interpreter.run("gradients", inputs);
  EXPECT_TRUE(succeeded(results)) << diagnosed.text();
  if (failed(results))
    return std::nan("");
  auto names = lm::programFor(module, lm::Purpose::Gradients).getResultNames();
  for (size_t r = 1; r < results->size(); ++r) {
    StringRef name = cast<StringAttr>(names[r]).getValue();
    EXPECT_TRUE(name.consume_front("gradient/")) << name.str();
    auto [sum, isNew] = gradients.try_emplace(name, (*results)[r]);
    for (int64_t i = 0; !isNew && i < sum->second.size(); ++i)
      sum->second[i] += (*results)[r][i];
  }
  return (*results)[0][0];
}

double runLoss(Interpreter &interpreter, const Inputs &inputs) {
  auto results = interpreter.run("loss", inputs);
  return succeeded(results) ? (*results)[0][0] : std::nan("");
}

/// Compares `perTensor` elements of the gradient of each parameter with central differences.
void checkGradients(const std::string &description, const ImportOptions &options, int perTensor) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Diagnosed diagnosed;
  auto module = import(diagnosed, readTomlDescription(description), options);
  ASSERT_TRUE(module);
  auto differentiated = differentiate(diagnosed, *module);
  Interpreter forward(*module), backward(*differentiated);
  forward.setRandomParameters(seed);
  backward.setRandomParameters(seed);
  auto inputs = forward.randomInputs("loss", seed);
  ASSERT_TRUE(succeeded(inputs));
  ASSERT_TRUE(inputs->contains("random"));
  inputs->find("random")->second.integers = {static_cast<int64_t>(seed), 3};
  for (int64_t &example : inputs->find("examples")->second.integers)
    example += 17;

  llvm::StringMap<Tensor> gradients;
  double loss = runGradients(diagnosed, *differentiated, backward, *inputs, gradients);
  EXPECT_NEAR(loss, runLoss(forward, *inputs), 1e-12 * std::abs(loss));
  EXPECT_EQ(gradients.size(), forward.parameterTypes().size());
  for (const auto &entry : gradients) {
    StringRef name = entry.first();
    const Tensor &gradient = entry.second;
    ASSERT_TRUE(gradient.fits(forward.parameterTypes().at(name))) << name.str();
    double scale = largest(gradient);
    auto which = RankedTensorType::get({perTensor}, IntegerType::get(&diagnosed.context(), 64));
    Tensor elements = randomTensor(which, seed, name, 0, 1, gradient.size());
    // One of them is the largest: in a table most rows have gradient 0.
    elements.integers[0] =
        std::max_element(gradient.floats.begin(), gradient.floats.end(),
                         [](double a, double b) { return std::abs(a) < std::abs(b); }) -
        gradient.floats.begin();
    for (int64_t element : elements.integers) {
      Tensor value = *forward.findParameter(name);
      double &variable = value[element];
      double expected = numericDerivative(variable, [&] {
        EXPECT_TRUE(succeeded(forward.setParameter(name, value)));
        return runLoss(forward, *inputs);
      });
      ASSERT_TRUE(succeeded(forward.setParameter(name, value)));
      EXPECT_NEAR(gradient[element], expected, 1e-6 * scale + 1e-9)
          << "element " << element << " of the gradient of " << name.str();
    }
  }
}

TEST(Model, gradientsOfTiny) {
  ImportOptions options;
  options.microBatch = 2;
  options.time = 5;
  options.dropout = 0.2;
  checkGradients(FTLM_SOURCE "/models/tiny.toml", options, 2);
}

/// A small model in the form of GPT-1: post-norm, one joint table with dropout, a softmax over
/// positions too, fewer positions than stored.
constexpr const char *smallGpt1 = R"(
name = "small-gpt1"
naming = "gpt1"
vocabulary = 11
specials = 3
positions = 9
width = 12
layers = 2
heads = 3
norm = "post"
final_norm = false
softmax_over_positions = true
embedding_dropout = 0.1
embedding_dropout_on = "table"
attention_dropout = 0.2
residual_dropout = 0.3
scale_residual_init = false
)";

/// A description in a file that lives as long as this.
class DescriptionFile {
public:
  DescriptionFile(const std::string &name, const std::string &text)
      : path(std::filesystem::path(testing::TempDir()) /
             (name + "_" + std::to_string(getpid()) + ".toml")) {
    std::ofstream(path) << text;
  }
  ~DescriptionFile() { std::filesystem::remove(path); }
  std::string name() const { return path.string(); }

private:
  std::filesystem::path path;
};

TEST(Model, gradientsOfTheFormOfGpt1) {
  DescriptionFile description("ftlm_small_gpt1", smallGpt1);
  ImportOptions options;
  options.microBatch = 3;
  options.time = 7;
  checkGradients(description.name(), options, 4);
}

//===----------------------------------------------------------------------===//
// Reference values
//===----------------------------------------------------------------------===//

/// One tensor of a file; `step` selects along the first dimension, which goes.
Tensor load(const SafetensorsFile &file, const std::string &name,
            std::optional<int64_t> step = {}) {
  const TensorView *view = file.find(name);
  if (!view) {
    ADD_FAILURE() << "the file has no tensor " << name;
    return {};
  }
  Tensor tensor;
  tensor.shape.assign(view->shape.begin() + (step ? 1 : 0), view->shape.end());
  auto count = static_cast<size_t>(tensor.size());
  const std::byte *start = view->data.data() + count * 4 * static_cast<size_t>(step.value_or(0));
  for (size_t i = 0; i < count; ++i) {
    if (view->dtype == plan::DType::F32) {
      float value;
      std::memcpy(&value, start + 4 * i, 4);
      tensor.floats.push_back(value);
    } else {
      int32_t value;
      std::memcpy(&value, start + 4 * i, 4);
      tensor.integers.push_back(value);
    }
  }
  return tensor;
}

/// Lets @loss return the logits after the loss.
void returnLogits(ModuleOp module) {
  auto loss = SymbolTable(module).lookup<lm::ProgramOp>("loss");
  Block &body = loss.getBody().front();
  auto term = *body.getOps<lm::CrossEntropyOp>().begin();
  auto returnOp = cast<lm::ReturnOp>(body.getTerminator());
  returnOp.getOperandsMutable().append(term.getLogits());
  loss.setFunctionType(
      FunctionType::get(module.getContext(), body.getArgumentTypes(), returnOp.getOperandTypes()));
  loss.setResultNamesAttr(Builder(module.getContext()).getStrArrayAttr({"loss", "logits"}));
}

void expectClose(const Tensor &found, const Tensor &expected, const std::string &name) {
  ASSERT_EQ(found.floats.size(), expected.floats.size()) << name;
  double tolerance = 1e-6 * largest(expected);
  for (size_t i = 0; i < found.floats.size(); ++i)
    ASSERT_NEAR(found.floats[i], expected.floats[i], tolerance) << name << ", element " << i;
}

class Golden : public testing::Test {
protected:
  void SetUp() override {
    if (goldenFolder().empty())
      GTEST_SKIP() << "no reference values: set FTLM_SHARED to a folder that holds golden/";
  }
};

struct Gpt2Golden {
  Gpt2Golden()
      : folder(goldenFolder() / "gpt2_tiny"),
        weights(SafetensorsFile::open(folder / "model.safetensors")),
        batches(SafetensorsFile::open(folder / "batches.safetensors")),
        expected(SafetensorsFile::open(folder / "expected.safetensors")),
        log(nlohmann::json::parse(std::ifstream(folder / "expected.json"))) {}

  OwningOpRef<ModuleOp> import(Diagnosed &diagnosed) const {
    ImportOptions options;
    options.batch = options.microBatch = 6;
    options.time = 24;
    return interpret::import(diagnosed, readHuggingFaceFolder(folder.string()), options);
  }
  void setParameters(Interpreter &interpreter) const {
    for (const auto &parameter : interpreter.parameterTypes())
      EXPECT_TRUE(succeeded(
          interpreter.setParameter(parameter.first(), load(weights, parameter.first().str()))));
  }
  Inputs inputs(int64_t step) const {
    Inputs inputs;
    for (const char *name : {"tokens", "targets", "weights"})
      inputs[name] = load(batches, name, step);
    return inputs;
  }

  std::filesystem::path folder;
  SafetensorsFile weights, batches, expected;
  nlohmann::json log;
};

TEST_F(Golden, lossAndLogitsOfGpt2) {
  Gpt2Golden golden;
  Diagnosed diagnosed;
  auto module = golden.import(diagnosed);
  ASSERT_TRUE(module);
  returnLogits(*module);
  Interpreter interpreter(*module);
  golden.setParameters(interpreter);
  auto results = interpreter.run("loss", golden.inputs(0));
  ASSERT_TRUE(succeeded(results)) << diagnosed.text();
  EXPECT_NEAR((*results)[0][0], golden.log["loss"][0].get<double>(), 1e-10);
  expectClose((*results)[1], load(golden.expected, "logits"), "logits");
}

TEST_F(Golden, nextLogitsOfGpt2) {
  Gpt2Golden golden;
  Diagnosed diagnosed;
  auto module = golden.import(diagnosed);
  ASSERT_TRUE(module);
  Interpreter interpreter(*module);
  golden.setParameters(interpreter);
  Tensor tokens = golden.inputs(0)["tokens"], logits = load(golden.expected, "logits");
  for (auto [sequence, position] : {std::pair<int64_t, int64_t>{0, 0}, {2, 13}, {5, 23}}) {
    std::vector<int64_t> row(tokens.integers.begin() + 24 * sequence,
                             tokens.integers.begin() + 24 * (sequence + 1));
    auto results =
        interpreter.run("generate", {{"tokens", Tensor::ofIntegers({1, 24}, row)},
                                     {"positions", Tensor::ofIntegers({1}, {position})}});
    ASSERT_TRUE(succeeded(results)) << diagnosed.text();
    auto from = logits.floats.begin() + (24 * sequence + position) * 97;
    expectClose((*results)[0], Tensor::ofFloats({1, 97}, {from, from + 97}), "next logits");
  }
}

TEST_F(Golden, gradientsOfGpt2) {
  Gpt2Golden golden;
  Diagnosed diagnosed;
  auto module = golden.import(diagnosed);
  ASSERT_TRUE(module);
  auto differentiated = differentiate(diagnosed, *module);
  Interpreter interpreter(*differentiated);
  golden.setParameters(interpreter);
  llvm::StringMap<Tensor> gradients;
  double loss = runGradients(diagnosed, *differentiated, interpreter, golden.inputs(0), gradients);
  EXPECT_NEAR(loss, golden.log["loss"][0].get<double>(), 1e-10);
  double squares = 0;
  for (const auto &gradient : gradients) {
    std::string name = gradient.first().str();
    Tensor expected = load(golden.expected, "grad." + name);
    expectClose(gradient.second, expected, name);
    for (double value : gradient.second.floats)
      squares += value * value;
  }
  EXPECT_EQ(gradients.size(), interpreter.parameterTypes().size());
  EXPECT_NEAR(std::sqrt(squares), golden.log["grad_norm"][0].get<double>(), 1e-10);
}

/// The floats of params_0.npy to params_9.npy, one after the other.
std::vector<double> loadPieces(const std::filesystem::path &folder) {
  std::vector<double> all;
  for (int piece = 0; piece < 10; ++piece) {
    std::ifstream file(folder / ("params_" + std::to_string(piece) + ".npy"), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    auto at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
    for (size_t i = 10 + at(8) + 256 * at(9); i + 4 <= bytes.size(); i += 4) {
      float value;
      std::memcpy(&value, bytes.data() + i, 4);
      all.push_back(value);
    }
  }
  return all;
}

constexpr const char *goldenGpt1 = R"(
name = "golden-gpt1"
naming = "gpt1"
vocabulary = 89
specials = 3
positions = 32
width = 48
layers = 3
heads = 4
norm = "post"
final_norm = false
softmax_over_positions = true
scale_residual_init = false
)";

// The language-model term of the reference's objective: the mean over sequences of the mean over
// their real targets.
TEST_F(Golden, languageModelLossAndLogitsOfGpt1) {
  std::filesystem::path folder = goldenFolder() / "gpt1_tiny";
  SafetensorsFile extra = SafetensorsFile::open(folder / "extra.safetensors");
  SafetensorsFile batches = SafetensorsFile::open(folder / "batches.safetensors");
  SafetensorsFile expected = SafetensorsFile::open(folder / "expected.safetensors");
  nlohmann::json log = nlohmann::json::parse(std::ifstream(folder / "expected.json"));

  DescriptionFile description("ftlm_golden_gpt1", goldenGpt1);
  Diagnosed diagnosed;
  ImportOptions options;
  options.batch = options.microBatch = 8;
  options.time = 20;
  auto module = import(diagnosed, readTomlDescription(description.name()), options);
  ASSERT_TRUE(module);
  returnLogits(*module);
  Interpreter interpreter(*module);

  // The pieces hold positions, tokens, then the tensors of each layer; the joint table is tokens,
  // special rows, positions.
  std::vector<double> pieces = loadPieces(folder);
  auto next = pieces.begin();
  auto take = [&](int64_t count) {
    std::vector<double> values(next, next + count);
    next += count;
    return values;
  };
  std::vector<double> positions = take(int64_t{32} * 48), table = take(int64_t{89} * 48);
  llvm::append_range(table, load(extra, "special_rows").floats);
  llvm::append_range(table, positions);
  auto set = [&](const std::string &name, std::vector<double> values) {
    RankedTensorType type = interpreter.parameterTypes().at(name);
    EXPECT_TRUE(succeeded(
        interpreter.setParameter(name, Tensor::ofFloats(type.getShape(), std::move(values)))));
  };
  set("we", table);
  for (int layer = 0; layer < 3; ++layer)
    for (const char *part :
         {"attn.c_attn.w", "attn.c_attn.b", "attn.c_proj.w", "attn.c_proj.b", "ln_1.g", "ln_1.b",
          "mlp.c_fc.w", "mlp.c_fc.b", "mlp.c_proj.w", "mlp.c_proj.b", "ln_2.g", "ln_2.b"}) {
      std::string name = "h" + std::to_string(layer) + "." + part;
      set(name, take(interpreter.parameterTypes().at(name).getNumElements()));
    }
  ASSERT_TRUE(next == pieces.end());

  Tensor tokens = load(batches, "tokens", 0), mask = load(batches, "mask", 0);
  tokens.shape = mask.shape = {8, 20};
  Tensor targets = tokens, weights = mask;
  for (int64_t b = 0; b < 8; ++b) {
    double real = 0;
    for (int64_t t = 1; t < 20; ++t)
      real += mask.at(b, t);
    for (int64_t t = 0; t < 20; ++t) {
      weights.at(b, t) = t < 19 ? mask.at(b, t + 1) / (real * 8) : 0;
      targets.integers[static_cast<size_t>(b * 20 + t)] =
          t < 19 ? tokens.integer(b * 20 + t + 1) : 0;
    }
  }
  auto results =
      interpreter.run("loss", {{"tokens", tokens}, {"targets", targets}, {"weights", weights}});
  ASSERT_TRUE(succeeded(results)) << diagnosed.text();
  EXPECT_NEAR((*results)[0][0], log["log"][0]["lm_loss"].get<double>(), 1e-10);
  Tensor logits = load(expected, "lm_logits"), found = Tensor::ofFloats({0, 112}, {});
  for (int64_t b = 0; b < 8; ++b) {
    auto from = (*results)[1].floats.begin() + b * 20 * 112;
    found.floats.insert(found.floats.end(), from, from + std::ptrdiff_t{19} * 112);
  }
  expectClose(found, logits, "logits");
}

} // namespace
} // namespace ftlm::interpret
