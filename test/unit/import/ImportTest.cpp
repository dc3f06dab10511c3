// SPDX-License-Identifier: Apache-2.0
// Descriptions and modules made of them: parameters are counted against published figures, and
// prefixes of names come from the header of a safetensors file.
#include "compiler/import/BuildModule.h"
#include "compiler/import/ModelDescription.h"
#include "dialects/lm/Lm.h"

#include "mlir/IR/MLIRContext.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace ftlm;

namespace {

/// A module, or a null module after a failed expectation.
mlir::OwningOpRef<mlir::ModuleOp> import(mlir::MLIRContext &context,
                                         llvm::Expected<ModelDescription> model,
                                         ImportOptions options = {}) {
  if (!model) {
    ADD_FAILURE() << llvm::toString(model.takeError());
    return {};
  }
  auto module = buildModule(context, *model, options);
  if (!module) {
    ADD_FAILURE() << llvm::toString(module.takeError());
    return {};
  }
  return std::move(*module);
}

int64_t countParameters(mlir::ModuleOp module) {
  int64_t count = 0;
  for (lm::ParamOp param : module.getOps<lm::ParamOp>())
    count += param.getTensorType().getNumElements() * param.getLayers().value_or(1);
  return count;
}

int64_t setting(mlir::ModuleOp module, llvm::StringRef key) {
  auto settings = module->getAttrOfType<mlir::DictionaryAttr>("lm.settings");
  return settings.getAs<mlir::IntegerAttr>(key).getInt();
}

std::string modelFile(const std::string &name) {
  return FTLM_MODELS "/" + name + ".toml";
}

struct Published {
  const char *name;
  int64_t parameters;
};

class PublishedModels : public testing::TestWithParam<Published> {};

TEST_P(PublishedModels, haveAsManyParametersAsReleased) {
  mlir::MLIRContext context;
  auto module = import(context, readTomlDescription(modelFile(GetParam().name)));
  ASSERT_TRUE(module);
  EXPECT_EQ(countParameters(*module), GetParam().parameters);
}

// GPT-1's released file holds 116,534,784 floats and not the three special rows. GPT-2's figures
// are those of the released checkpoints, whose output projection is the token table.
INSTANTIATE_TEST_SUITE_P(All, PublishedModels,
                         testing::Values(Published{"gpt1", 116534784 + 3 * 768},
                                         Published{"gpt2", 124439808},
                                         Published{"gpt2-medium", 354823168},
                                         Published{"gpt2-large", 774030080},
                                         Published{"gpt2-xl", 1557611200}),
                         [](const auto &tested) {
                           std::string name = tested.param.name;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Import, defaultsComeFromTheDescription) {
  mlir::MLIRContext context;
  auto module = import(context, readTomlDescription(modelFile("small")));
  ASSERT_TRUE(module);
  EXPECT_EQ(setting(*module, "batch"), 16);
  EXPECT_EQ(setting(*module, "micro_batch"), 16);
  EXPECT_EQ(setting(*module, "time"), 128);
  EXPECT_EQ(setting(*module, "threads"), 1);
}

TEST(Import, aSmallBatchMakesTheMicroBatchSmall) {
  mlir::MLIRContext context;
  ImportOptions options;
  options.batch = 3;
  auto module = import(context, readTomlDescription(modelFile("small")), options);
  ASSERT_TRUE(module);
  EXPECT_EQ(setting(*module, "micro_batch"), 3);
}

TEST(Import, aMicroBatchThatDoesNotDivideTheBatchIsLegal) {
  mlir::MLIRContext context;
  ImportOptions options;
  options.batch = 7;
  options.microBatch = 3;
  auto module = import(context, readTomlDescription(modelFile("tiny")), options);
  ASSERT_TRUE(module);
  EXPECT_EQ(setting(*module, "batch"), 7);
  EXPECT_EQ(setting(*module, "micro_batch"), 3);
}

TEST(Import, configOfADescriptionOpensAsHuggingFaceFolder) {
  auto model = readTomlDescription(modelFile("tiny"));
  ASSERT_TRUE(bool(model)) << llvm::toString(model.takeError());
  nlohmann::json config = nlohmann::json::parse(model->configJson);
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["architectures"], nlohmann::json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(config["n_inner"], 192);
  EXPECT_EQ(config["activation_function"], "gelu_new");
  EXPECT_EQ(config["layer_norm_epsilon"], 1e-5);

  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "ftlm_config";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << model->configJson;
  auto again = readHuggingFaceFolder(folder.string());
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ(again->configJson, model->configJson);
  EXPECT_EQ(again->vocabulary, 97);
  EXPECT_EQ(again->mlpWidth, 192);
  EXPECT_TRUE(again->preNorm);
  std::filesystem::remove_all(folder);
}

/// A folder with a config and a safetensors file whose header is `header`.
std::string folderWithHeader(const std::string &header) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "ftlm_prefix";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "gpt2", "vocab_size": 97, "n_positions": 32, "n_embd": 48, "n_layer": 3, "n_head": 4})";
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  for (int i = 0; i < 8; ++i)
    file.put(static_cast<char>(i < 2 ? header.size() >> (8 * i) & 255 : 0));
  file << header;
  return folder.string();
}

TEST(Import, prefixOfNamesIsThatOfTheFile) {
  auto without =
      readHuggingFaceFolder(folderWithHeader(R"({"wte.weight": {}, "h.0.ln_1.weight": {}})"));
  ASSERT_TRUE(bool(without)) << llvm::toString(without.takeError());
  EXPECT_EQ(without->prefix, "");
  std::string folder =
      folderWithHeader(R"({"transformer.wte.weight": {}, "transformer.h.0.ln_1.weight": {}})");
  auto with = readHuggingFaceFolder(folder);
  ASSERT_TRUE(bool(with)) << llvm::toString(with.takeError());
  EXPECT_EQ(with->prefix, "transformer.");
  std::filesystem::remove_all(folder);
}

} // namespace
