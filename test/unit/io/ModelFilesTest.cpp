// SPDX-License-Identifier: Apache-2.0
// Parameters from files: every tensor is accounted for. A small GPT-2 of four parameters stands for
// all; what is not read may be of any dtype, what is read may not.
#include "runtime/io/ModelFiles.h"
#include "test/unit/support/TemporaryFolder.h"

#include <gmock/gmock.h>

using namespace ftlm;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

const std::vector<float> tableValues = {1, 2, 3, 4, 5, 6}, biasValues = {7, 8};

class Loading : public testing::Test {
protected:
  Loading() {
    plan::PlanT description;
    description.producer = "test";
    description.model = "tiny";
    description.config_json = "{}\n";
    description.objective = "lm";
    description.precision = "fp32";
    auto declare = [&](const char *name, std::vector<int64_t> shape) {
      auto parameter = std::make_unique<plan::ParameterT>();
      parameter->name = name;
      parameter->shape = std::move(shape);
      description.parameters.push_back(std::move(parameter));
    };
    declare("transformer.wte.weight", {3, 2});
    declare("transformer.h.0.ln_1.bias", {2});
    builder.FinishSizePrefixed(plan::Plan::Pack(builder, &description));
    model = flatbuffers::GetSizePrefixedRoot<plan::Plan>(builder.GetBufferPointer());
    add("transformer.wte.weight", plan::DType::F32, {3, 2}, raw(tableValues));
    add("transformer.h.0.ln_1.bias", plan::DType::F32, {2}, raw(biasValues));
  }

  /// Adds a tensor to the file; storedAs gives a dtype that plans do not have.
  void add(const std::string &name, std::optional<plan::DType> dtype, std::vector<int64_t> shape,
           const std::string &bytes, const std::string &storedAs = "") {
    remove(name);
    kept.push_back(std::make_unique<std::string>(bytes));
    tensors.push_back({name, dtype, std::move(shape), bytesOfText(*kept.back()), storedAs});
  }
  void remove(const std::string &name) {
    std::erase_if(tensors, [&](const TensorView &t) { return t.name == name; });
  }

  LoadReport load(std::vector<std::filesystem::path> more = {}) {
    writeSafetensors(folder / "model.safetensors", tensors);
    more.insert(more.begin(), folder.path);
    return loadParameters(more, *model, [&](size_t i) { return std::span(i == 0 ? table : bias); });
  }
  std::string refusal() {
    return errorOf([&] { load(); });
  }

  flatbuffers::FlatBufferBuilder builder;
  const plan::Plan *model;
  std::vector<TensorView> tensors;
  std::vector<std::unique_ptr<std::string>> kept;
  TemporaryFolder folder;
  std::vector<float> table = std::vector<float>(6, -1), bias = std::vector<float>(2, -1);
};

TEST_F(Loading, valuesComeInPlace) {
  EXPECT_THAT(load().ignored, IsEmpty());
  EXPECT_EQ(table, tableValues);
  EXPECT_EQ(bias, biasValues);
}

TEST_F(Loading, namesWithAndWithoutThePrefixAreTheSame) {
  remove("transformer.wte.weight");
  add("wte.weight", plan::DType::F32, {3, 2}, raw(tableValues));
  load();
  EXPECT_EQ(table, tableValues);
}

TEST_F(Loading, causalMasksOfAnyDtypeStayUnread) {
  const std::pair<const char *, size_t> dtypes[] = {{"BOOL", 1},    {"I8", 1},     {"I16", 2},
                                                    {"U16", 2},     {"U32", 4},    {"U64", 8},
                                                    {"F8_E5M2", 1}, {"F8_E4M3", 1}};
  for (auto [dtype, bytes] : dtypes)
    for (const char *name : {"transformer.h.0.attn.bias", "h.11.attn.bias"}) {
      add(name, {}, {1, 1, 4, 4}, std::string(16 * bytes, '\x01'), dtype);
      EXPECT_THAT(load().ignored, IsEmpty()) << dtype;
      remove(name);
    }
  for (plan::DType dtype : {plan::DType::U8, plan::DType::BF16, plan::DType::F16, plan::DType::F32,
                            plan::DType::F64, plan::DType::I32, plan::DType::I64}) {
    add("h.0.attn.bias", dtype, {1, 1, 4, 4}, std::string(16 * bytesOf(dtype), '\x01'));
    add("h.0.attn.masked_bias", dtype, {}, std::string(bytesOf(dtype), '\x01'));
    EXPECT_THAT(load().ignored, IsEmpty()) << plan::EnumNameDType(dtype);
  }
  EXPECT_EQ(table, tableValues);
}

TEST_F(Loading, tensorsThatOnlyEndLikeAMaskAreUnexpected) {
  for (const char *name :
       {"attn.bias", "h.attn.bias", "h.0.x.attn.bias", "encoder.h.0.attn.bias"}) {
    add(name, plan::DType::F32, {2, 2}, raw<float>({1, 2, 3, 4}));
    EXPECT_THAT(refusal(), HasSubstr(std::string(name) + " is unexpected"));
    remove(name);
  }
  add("h.0.attn.bias", plan::DType::F32, {2}, raw<float>({1, 2})); // no mask has this shape
  EXPECT_THAT(refusal(), HasSubstr("h.0.attn.bias is unexpected"));
}

TEST_F(Loading, parametersOfAnotherDtypeAreRefusedByName) {
  for (auto [dtype, bytes] : {std::pair("BOOL", 1), std::pair("F8_E4M3", 1), std::pair("U16", 2)}) {
    add("transformer.h.0.ln_1.bias", {}, {2}, std::string(size_t(2 * bytes), 'x'), dtype);
    EXPECT_THAT(refusal(), HasSubstr(std::string("transformer.h.0.ln_1.bias has dtype ") + dtype));
  }
  for (plan::DType dtype : {plan::DType::F16, plan::DType::BF16, plan::DType::F64}) {
    add("transformer.h.0.ln_1.bias", dtype, {2}, std::string(2 * bytesOf(dtype), 'x'));
    EXPECT_THAT(refusal(), AllOf(HasSubstr("transformer.h.0.ln_1.bias has dtype "),
                                 HasSubstr(plan::EnumNameDType(dtype)), HasSubstr("F32")));
  }
  EXPECT_EQ(table, std::vector<float>(6, -1)); // nothing was loaded
}

TEST_F(Loading, equalCopyOfTheTableIsSilent) {
  add("lm_head.weight", plan::DType::F32, {3, 2}, raw(tableValues));
  EXPECT_THAT(load().ignored, IsEmpty());
}

TEST_F(Loading, outputThatDiffersFromItsTableIsRefused) {
  std::vector<float> other = tableValues;
  other.back() += 1e-6f;
  add("lm_head.weight", plan::DType::F32, {3, 2}, raw(other));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("lm_head.weight"), HasSubstr("transformer.wte.weight"),
                               HasSubstr("differs")));
  add("lm_head.weight", plan::DType::F32, {4, 2}, raw<float>({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("lm_head.weight"), HasSubstr("transformer.wte.weight")));
  add("lm_head.weight", plan::DType::F16, {3, 2}, std::string(12, 'x'));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("lm_head.weight"), HasSubstr("F16")));
}

TEST_F(Loading, whatElseIsIgnoredIsNamed) {
  add("transformer.position_ids", plan::DType::I64, {1, 4}, raw<int64_t>({0, 1, 2, 3}));
  EXPECT_THAT(load().ignored, ElementsAre("transformer.position_ids"));
}

TEST_F(Loading, allProblemsAreListedAtOnce) {
  remove("transformer.wte.weight");
  add("transformer.h.0.ln_1.bias", plan::DType::F32, {3}, raw<float>({1, 2, 3}));
  add("transformer.h.1.ln_1.bias", plan::DType::F32, {1}, raw<float>({1}));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("transformer.wte.weight is missing"),
                               HasSubstr("transformer.h.0.ln_1.bias has shape [3]; expected [2]"),
                               HasSubstr("transformer.h.1.ln_1.bias is unexpected")));
}

TEST_F(Loading, tensorGivenTwiceIsRefused) {
  add("h.0.ln_1.bias", plan::DType::F32, {2}, raw(biasValues));
  EXPECT_THAT(refusal(), HasSubstr("given twice"));
  remove("h.0.ln_1.bias");
  writeSafetensors(folder / "more.safetensors",
                   {{"wte.weight", plan::DType::F32, {3, 2}, tensors[0].data}});
  EXPECT_THAT(errorOf([&] { load({folder / "more.safetensors"}); }),
              AllOf(HasSubstr("given twice"), HasSubstr("more.safetensors")));
}

TEST_F(Loading, savedModelLoads) {
  load();
  TemporaryFolder saved;
  saveModel(saved.path, *model, [&](size_t i) { return std::span(i == 0 ? table : bias); });
  EXPECT_EQ(bytesIn(saved / "config.json"), "{}\n");
  table.assign(6, 0);
  std::vector<std::filesystem::path> sources = {saved.path};
  loadParameters(sources, *model, [&](size_t i) { return std::span(i == 0 ? table : bias); });
  EXPECT_EQ(table, tableValues);
}

} // namespace
