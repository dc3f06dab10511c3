// SPDX-License-Identifier: Apache-2.0
// The meaning of each forward op on values worked out by hand, and what is refused.
#include "test/unit/interpret/InterpretTesting.h"

#include "mlir/IR/Builders.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace mlir;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

namespace ftlm::interpret {
namespace {

constexpr double tiny = 1e-14;

Tensor floats(ArrayRef<int64_t> shape, std::vector<double> values) {
  return Tensor::ofFloats(shape, std::move(values));
}
Tensor integers(ArrayRef<int64_t> shape, std::vector<int64_t> values) {
  return Tensor::ofIntegers(shape, std::move(values));
}

void expectNear(const Tensor &found, const std::vector<double> &expected) {
  EXPECT_THAT(found.floats, Pointwise(DoubleNear(tiny), expected));
}

TEST(Philox, givesTheKnownAnswers) {
  std::filesystem::path golden = goldenFolder();
  if (golden.empty())
    GTEST_SKIP() << "no reference values: set FTLM_SHARED to a folder that holds golden/";
  nlohmann::json cases =
      nlohmann::json::parse(std::ifstream(golden / "philox4x32_10.json")).at("cases");
  ASSERT_GE(cases.size(), 3u);
  auto word = [](const nlohmann::json &text) {
    return static_cast<uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
  };
  for (const nlohmann::json &tested : cases) {
    auto at = [&](const char *list, size_t i) { return word(tested.at(list).at(i)); };
    auto words =
        philox4x32({at("counter", 0), at("counter", 1), at("counter", 2), at("counter", 3)},
                   {at("key", 0), at("key", 1)});
    EXPECT_THAT(words, ElementsAre(at("out", 0), at("out", 1), at("out", 2), at("out", 3)));
  }
}

TEST(Meaning, embeddingAddsRowsOfTokensAndPositions) {
  auto results = runText(R"(
    lm.layer_class @f(%tokens: tensor<2x2xi32>, %table: tensor<3x2xf32>, %positions: tensor<4x2xf32>)
        -> (tensor<2x2x2xf32>, tensor<2x2x2xf32>) {
      %x = lm.embedding %tokens, %table
          : tensor<2x2xi32>, tensor<3x2xf32> -> tensor<2x2x2xf32>
      %y = lm.embedding %tokens, %table positions %positions offset(1)
          : tensor<2x2xi32>, tensor<3x2xf32>, tensor<4x2xf32> -> tensor<2x2x2xf32>
      lm.return %x, %y : tensor<2x2x2xf32>, tensor<2x2x2xf32>
    })",
                         {{"tokens", integers({2, 2}, {2, 0, 1, 2})},
                          {"table", floats({3, 2}, {1, 2, 3, 4, 5, 6})},
                          {"positions", floats({4, 2}, {9, 9, 10, 20, 30, 40, 9, 9})}});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].floats, ElementsAre(5, 6, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(results[1].floats, ElementsAre(15, 26, 31, 42, 13, 24, 35, 46));
}

TEST(Meaning, linearMultipliesAndAddsTheBias) {
  auto results = runText(R"(
    lm.layer_class @f(%x: tensor<2x2xf32>, %w: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
      %y = lm.linear %x, %w bias %b
          : tensor<2x2xf32>, tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
      lm.return %y : tensor<2x3xf32>
    })",
                         {{"x", floats({2, 2}, {1, 2, 3, 4})},
                          {"w", floats({2, 3}, {1, 2, 3, 4, 5, 6})},
                          {"b", floats({3}, {100, 200, 300})}});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].floats, ElementsAre(109, 212, 315, 119, 226, 333));
}

TEST(Meaning, linearTransposedUsesTheFirstRows) {
  auto results =
      runText(R"(
    lm.layer_class @f(%x: tensor<1x2xf32>, %w: tensor<3x2xf32>) -> tensor<1x2xf32> {
      %y = lm.linear %x, %w transposed : tensor<1x2xf32>, tensor<3x2xf32> -> tensor<1x2xf32>
      lm.return %y : tensor<1x2xf32>
    })",
              {{"x", floats({1, 2}, {10, 1})}, {"w", floats({3, 2}, {1, 2, 3, 4, 5, 6})}});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].floats, ElementsAre(12, 34));
}

// Row (1, 7): mean 4, variance 9; with epsilon 7 the root is 4. Row (5, 5) has variance 0.
TEST(Meaning, layerNorm) {
  auto results = runText(R"(
    lm.layer_class @f(%x: tensor<2x2xf32>, %g: tensor<2xf32>, %b: tensor<2xf32>)
        -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) {
      %y, %mean, %rstd = lm.norm layer_norm %x gain %g bias %b epsilon(7.0)
          : tensor<2x2xf32> -> tensor<2xf32>
      lm.return %y, %mean, %rstd : tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>
    })",
                         {{"x", floats({2, 2}, {1, 7, 5, 5})},
                          {"g", floats({2}, {4, 8})},
                          {"b", floats({2}, {1, -1})}});
  ASSERT_EQ(results.size(), 3u);
  expectNear(results[0], {-2, 5, 1, -1});
  expectNear(results[1], {4, 5});
  expectNear(results[2], {0.25, 1 / std::sqrt(7.0)});
}

// Row (3, 5): mean square 17; with epsilon 8 the root is 5.
TEST(Meaning, rmsNorm) {
  auto results = runText(R"(
    lm.layer_class @f(%x: tensor<1x2xf32>, %g: tensor<2xf32>)
        -> (tensor<1x2xf32>, tensor<1xf32>, tensor<1xf32>) {
      %y, %mean, %rstd = lm.norm rms_norm %x gain %g epsilon(8.0)
          : tensor<1x2xf32> -> tensor<1xf32>
      lm.return %y, %mean, %rstd : tensor<1x2xf32>, tensor<1xf32>, tensor<1xf32>
    })",
                         {{"x", floats({1, 2}, {3, 5})}, {"g", floats({2}, {10, -2})}});
  ASSERT_EQ(results.size(), 3u);
  expectNear(results[0], {6, -2});
  expectNear(results[1], {0});
  expectNear(results[2], {0.2});
}

// The distribution function of the normal distribution at 1 is 0.841344746068542948...; the
// logistic function of 1 is 1 / (1 + 1/e). For the tanh form, tanh(z) = 1 - 2 / (exp(2 z) + 1).
TEST(Meaning, activations) {
  auto results = runText(R"(
    lm.layer_class @f(%x: tensor<3xf32>)
        -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
      %0 = lm.activation gelu_tanh %x : tensor<3xf32>
      %1 = lm.activation gelu %x : tensor<3xf32>
      %2 = lm.activation relu %x : tensor<3xf32>
      %3 = lm.activation silu %x : tensor<3xf32>
      lm.return %0, %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
    })",
                         {{"x", floats({3}, {-1, 0, 1})}});
  ASSERT_EQ(results.size(), 4u);
  double z = std::sqrt(2 / 3.14159265358979323846) * 1.044715;
  double tanhForm = 1 - 1 / (std::exp(2 * z) + 1);
  expectNear(results[0], {tanhForm - 1, 0, tanhForm});
  expectNear(results[1], {0.841344746068542948 - 1, 0, 0.841344746068542948});
  expectNear(results[2], {0, 0, 1});
  double logistic = 1 / (1 + std::exp(-1.0));
  expectNear(results[3], {logistic - 1, 0, logistic});
}

// Head 0 asks with ln 3, head 1 with 0, of keys 0 and 1 (scale 1): position 1 sees them with
// weights (1/4, 3/4) and (1/2, 1/2). Position 0 sees itself only. Both heads share the values 8
// and 16.
TEST(Meaning, attentionIsCausalAndSharesKeys) {
  auto results = runText(R"(
    lm.layer_class @f(%qkv: tensor<1x2x4xf32>) -> (tensor<1x2x2xf32>, tensor<1x2x2xf32>) {
      %y, %lse = lm.attention %qkv heads(2) kv_heads(1) scale(1.0)
          : (tensor<1x2x4xf32>) -> (tensor<1x2x2xf32>, tensor<1x2x2xf32>)
      lm.return %y, %lse : tensor<1x2x2xf32>, tensor<1x2x2xf32>
    })",
                         {{"qkv", floats({1, 2, 4}, {5, 5, 0, 8, std::log(3.0), 0, 1, 16})}});
  ASSERT_EQ(results.size(), 2u);
  expectNear(results[0], {8, 8, 14, 12});
  expectNear(results[1], {0, std::log(4.0), 0, std::log(2.0)});
}

TEST(Meaning, attentionScalesScores) {
  auto results = runText(R"(
    lm.layer_class @f(%qkv: tensor<1x2x3xf32>) -> tensor<1x2x1xf32> {
      %y, %lse = lm.attention %qkv heads(1) kv_heads(1) scale(0.5)
          : (tensor<1x2x3xf32>) -> (tensor<1x2x1xf32>, tensor<1x1x2xf32>)
      lm.return %y : tensor<1x2x1xf32>
    })",
                         {{"qkv", floats({1, 2, 3}, {0, 0, 8, 2 * std::log(3.0), 1, 16})}});
  ASSERT_EQ(results.size(), 1u);
  expectNear(results[0], {8, 14});
}

// With equal scores position t gives each position up to t the probability 1 / (t + 1). Values are
// powers of 16, so that the result tells which were kept: those where Philox at counter (element /
// 4, example, step, site) says so, with element = (h T + t) T + s.
TEST(Meaning, attentionDropsProbabilities) {
  std::vector<double> qkv;
  for (int t = 0; t < 3; ++t)
    for (double value : {0.0, 0.0, 0.0, 0.0, std::pow(16, t), std::pow(16, t)})
      qkv.push_back(value);
  auto results = runText(R"(
    lm.layer_class @f(%qkv: tensor<1x3x6xf32>, %random: tensor<2xi64>, %examples: tensor<1xi32>)
        -> tensor<1x3x2xf32> {
      %y, %lse = lm.attention %qkv heads(2) kv_heads(2) scale(1.0) dropout(0.5) site(4)
          random %random, %examples
          : (tensor<1x3x6xf32>, tensor<2xi64>, tensor<1xi32>)
          -> (tensor<1x3x2xf32>, tensor<1x2x3xf32>)
      lm.return %y : tensor<1x3x2xf32>
    })",
                         {{"qkv", floats({1, 3, 6}, qkv)},
                          {"random", integers({2}, {(int64_t{7} << 32) | 9, 3})},
                          {"examples", integers({1}, {5})}});
  ASSERT_EQ(results.size(), 1u);
  int kept = 0;
  for (uint32_t h = 0; h < 2; ++h)
    for (uint32_t t = 0; t < 3; ++t) {
      double expected = 0;
      for (uint32_t s = 0; s <= t; ++s) {
        uint32_t element = (h * 3 + t) * 3 + s;
        if (philox4x32({element / 4, 5, 3, 4}, {9, 7})[element % 4] >> 31) {
          expected += std::pow(16, s) * 2 / (t + 1);
          ++kept;
        }
      }
      EXPECT_NEAR(results[0].at(t, h), expected, tiny * 512);
    }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 12);
}

// The known answer for counter 0 and key 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8: as numbers below
// 1 0.399, 0.880, 0.736, 0.606.
TEST(Meaning, dropoutKeepsWhatPhiloxSays) {
  Inputs inputs = {{"x", floats({1, 4}, {1, 2, 3, 4})}, {"random", integers({2}, {0, 0})}};
  auto dropped = [&](const char *rate) {
    return runText(std::string(R"(
      lm.layer_class @f(%x: tensor<1x4xf32>, %random: tensor<2xi64>) -> tensor<1x4xf32> {
        %y = lm.dropout %x rate()") +
                       rate + R"() site(0) random %random : tensor<1x4xf32>, tensor<2xi64>
        lm.return %y : tensor<1x4xf32>
      })",
                   inputs)[0]
        .floats;
  };
  EXPECT_THAT(dropped("0.0"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(dropped("0.5"), ElementsAre(0, 4, 6, 8));
  EXPECT_THAT(dropped("0.75"), ElementsAre(0, 8, 0, 0));
}

TEST(Meaning, dropoutCountsElementsExamplesStepsAndSites) {
  std::vector<double> ones(20, 1);
  auto results = runText(R"(
    lm.layer_class @block(%x: tensor<2x10xf32>, %random: tensor<2xi64>, %examples: tensor<2xi32>)
        -> tensor<2x10xf32> {
      %y = lm.dropout %x rate(0.5) site(2) random %random, %examples
          : tensor<2x10xf32>, tensor<2xi64>, tensor<2xi32>
      lm.return %y : tensor<2x10xf32>
    }
    lm.layer_class @f(%x: tensor<2x10xf32>, %random: tensor<2xi64>, %examples: tensor<2xi32>)
        -> (tensor<2x10xf32>, tensor<2x10xf32>, tensor<2x10xf32>, tensor<2x10xf32>) {
      %0 = lm.dropout %x rate(0.5) site(2) random %random, %examples
          : tensor<2x10xf32>, tensor<2xi64>, tensor<2xi32>
      %1 = lm.dropout %x rate(0.5) site(2) random %random : tensor<2x10xf32>, tensor<2xi64>
      %2 = lm.layer_call @block(%x, %random, %examples) layer(6)
          : (tensor<2x10xf32>, tensor<2xi64>, tensor<2xi32>) -> tensor<2x10xf32>
      %3 = lm.dropout %x rate(0.5) site(2) random %random, %examples {lm.layer = 6 : i64}
          : tensor<2x10xf32>, tensor<2xi64>, tensor<2xi32>
      lm.return %0, %1, %2, %3
          : tensor<2x10xf32>, tensor<2x10xf32>, tensor<2x10xf32>, tensor<2x10xf32>
    })",
                         {{"x", floats({2, 10}, ones)},
                          {"random", integers({2}, {(int64_t{7} << 32) | 9, 3})},
                          {"examples", integers({2}, {5, 11})}});
  ASSERT_EQ(results.size(), 4u);
  auto factor = [](uint32_t element, uint32_t example, uint32_t site) {
    return philox4x32({element / 4, example, 3, site}, {9, 7})[element % 4] >> 31 ? 2.0 : 0.0;
  };
  for (uint32_t b = 0; b < 2; ++b)
    for (uint32_t e = 0; e < 10; ++e) {
      uint32_t example = b == 0 ? 5 : 11;
      EXPECT_EQ(results[0].at(b, e), factor(e, example, 2));
      EXPECT_EQ(results[1].at(b, e), factor(10 * b + e, 0, 2));
      EXPECT_EQ(results[2].at(b, e), factor(e, example, 16 * (6 + 1) + 2));
      EXPECT_EQ(results[3].at(b, e), factor(e, example, 16 * (6 + 1) + 2));
    }
}

TEST(Meaning, addAndSum) {
  auto results =
      runText(R"(
    lm.layer_class @f(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<f32>) {
      %z = lm.add %x, %y : tensor<2x2xf32>
      %s = lm.sum %z : tensor<2x2xf32> -> tensor<f32>
      lm.return %z, %s : tensor<2x2xf32>, tensor<f32>
    })",
              {{"x", floats({2, 2}, {1, 2, 3, 4})}, {"y", floats({2, 2}, {10, 20, 30, -40})}});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].floats, ElementsAre(11, 22, 33, -36));
  EXPECT_THAT(results[1].floats, ElementsAre(30));
}

TEST(Meaning, takePosition) {
  auto results = runText(R"(
    lm.layer_class @f(%x: tensor<2x3x2xf32>, %positions: tensor<2xi32>) -> tensor<2x2xf32> {
      %y = lm.take_position %x, %positions
          : tensor<2x3x2xf32>, tensor<2xi32> -> tensor<2x2xf32>
      lm.return %y : tensor<2x2xf32>
    })",
                         {{"x", floats({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})},
                          {"positions", integers({2}, {2, 0})}});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].floats, ElementsAre(5, 6, 7, 8));
}

// Exponentials 1 and 3 sum to 4. The second row counts nothing, though its target is no column.
TEST(Meaning, crossEntropyIsWeighted) {
  auto results = runText(R"(
    lm.layer_class @f(%logits: tensor<3x2xf32>, %targets: tensor<3xi32>, %weights: tensor<3xf32>)
        -> (tensor<3xf32>, tensor<3xf32>) {
      %losses, %lse = lm.cross_entropy %logits, %targets, %weights
          : tensor<3x2xf32> -> tensor<3xf32>
      lm.return %losses, %lse : tensor<3xf32>, tensor<3xf32>
    })",
                         {{"logits", floats({3, 2}, {0, std::log(3.0), 0, 0, 1000, 1000})},
                          {"targets", integers({3}, {1, -1, 0})},
                          {"weights", floats({3}, {2, 0, 0.5})}});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NEAR(results[0][0], 2 * std::log(4.0 / 3), tiny);
  EXPECT_EQ(results[0][1], 0);
  EXPECT_NEAR(results[0][2], 0.5 * std::log(2.0), 1e-12);
  EXPECT_NEAR(results[1][0], std::log(4.0), tiny);
  EXPECT_NEAR(results[1][2], 1000 + std::log(2.0), 1e-12);
}

// Probabilities 1/4 and 3/4; the second row counts nothing.
TEST(Meaning, crossEntropyGradient) {
  auto results = runText(R"(
    lm.layer_class @f(%logits: tensor<2x2xf32>, %lse: tensor<2xf32>, %targets: tensor<2xi32>,
                  %weights: tensor<2xf32>) -> tensor<2x2xf32> {
      %d = lm.cross_entropy_grad %logits, %lse, %targets, %weights
          : tensor<2x2xf32> -> tensor<2xf32>
      lm.return %d : tensor<2x2xf32>
    })",
                         {{"logits", floats({2, 2}, {0, std::log(3.0), 5, 5})},
                          {"lse", floats({2}, {std::log(4.0), 5})},
                          {"targets", integers({2}, {1, 99})},
                          {"weights", floats({2}, {2, 0})}});
  ASSERT_EQ(results.size(), 1u);
  expectNear(results[0], {0.5, -0.5, 0, 0});
}

TEST(Frame, layersReadTheirMembersOfAFamily) {
  Diagnosed diagnosed;
  auto module = diagnosed.parse(R"(
    lm.param @"h.*.g" layers(2) : tensor<1xf32> init <constant, 1.0>
    lm.param @last : tensor<1xf32> init <constant, 1.0>
    lm.layer_class @block(%x: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
      %g = lm.use @"h.*.g" : tensor<1xf32>
      %y = lm.add %x, %g : tensor<1xf32>
      lm.return %y, %x : tensor<1xf32>, tensor<1xf32>
    }
    lm.program objective @f(%weights: tensor<1xf32>)
        -> (loss: tensor<1xf32>, logits: tensor<1xf32>) {
      %0:2 = lm.layer_call @block(%weights) layer(1) : (tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>)
      %1:2 = lm.layer_call @block(%0#0) layer(0) : (tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>)
      %g = lm.use @last : tensor<1xf32>
      %y = lm.add %1#0, %g : tensor<1xf32>
      lm.return %y, %1#1 : tensor<1xf32>, tensor<1xf32>
    })");
  ASSERT_TRUE(module);
  Interpreter interpreter(*module);
  EXPECT_TRUE(succeeded(interpreter.setParameter("h.0.g", floats({1}, {10}))));
  EXPECT_TRUE(succeeded(interpreter.setParameter("h.1.g", floats({1}, {200}))));
  EXPECT_TRUE(failed(interpreter.run("f", {{"weights", floats({1}, {1})}})));
  EXPECT_THAT(diagnosed.text(), HasSubstr("reads the parameter 'last', which has no value"));
  EXPECT_TRUE(succeeded(interpreter.setParameter("last", floats({1}, {3000}))));
  auto results = interpreter.run("f", {{"weights", floats({1}, {1})}});
  ASSERT_TRUE(succeeded(results)) << diagnosed.text();
  EXPECT_THAT((*results)[0].floats, ElementsAre(3211));
  EXPECT_THAT((*results)[1].floats, ElementsAre(201));

  EXPECT_TRUE(failed(interpreter.setParameter("h.2.g", floats({1}, {1}))));
  EXPECT_THAT(diagnosed.text(), HasSubstr("has no parameter 'h.2.g' to set"));
  EXPECT_TRUE(failed(interpreter.setParameter("h.0.g", floats({2}, {1, 2}))));
  EXPECT_THAT(diagnosed.text(), HasSubstr("parameter 'h.0.g' is a 'tensor<1xf32>'"));
}

constexpr const char *identity = R"(
  lm.layer_class @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    lm.return %x : tensor<2xf32>
  })";

TEST(Frame, refusesOtherInputsThanTheProgramHas) {
  EXPECT_THAT(failureOf(identity, {}),
              HasSubstr("has the argument 'x', for which there is no input"));
  EXPECT_THAT(failureOf(identity, {{"x", floats({3}, {1, 2, 3})}}),
              HasSubstr("argument 'x' is a 'tensor<2xf32>'"));
  EXPECT_THAT(failureOf(identity, {{"x", integers({2}, {1, 2})}}),
              HasSubstr("argument 'x' is a 'tensor<2xf32>'"));
  EXPECT_THAT(failureOf(identity, {{"x", floats({2}, {1, 2})}, {"y", floats({2}, {1, 2})}}),
              HasSubstr("has no argument 'y', for which there is an input"));
}

TEST(Frame, refusesAProgramThatIsNotThere) {
  Diagnosed diagnosed;
  auto module = diagnosed.parse(identity);
  ASSERT_TRUE(module);
  EXPECT_TRUE(failed(Interpreter(*module).run("g", {})));
  EXPECT_THAT(diagnosed.text(),
              HasSubstr("has no lm.program and no lm.layer_class @g to interpret"));
}

TEST(Frame, refusesIndicesOutsideTheirTensor) {
  EXPECT_THAT(
      failureOf(R"(
    lm.layer_class @f(%tokens: tensor<1x2xi32>, %table: tensor<3x1xf32>) -> tensor<1x2x1xf32> {
      %x = lm.embedding %tokens, %table : tensor<1x2xi32>, tensor<3x1xf32> -> tensor<1x2x1xf32>
      lm.return %x : tensor<1x2x1xf32>
    })",
                {{"tokens", integers({1, 2}, {0, 3})}, {"table", floats({3, 1}, {1, 2, 3})}}),
      HasSubstr("reads token 3 at element 1; expected 0 to 2"));
  EXPECT_THAT(failureOf(R"(
    lm.layer_class @f(%logits: tensor<1x2xf32>, %targets: tensor<1xi32>, %weights: tensor<1xf32>)
        -> tensor<1xf32> {
      %losses, %lse = lm.cross_entropy %logits, %targets, %weights
          : tensor<1x2xf32> -> tensor<1xf32>
      lm.return %losses : tensor<1xf32>
    })",
                        {{"logits", floats({1, 2}, {0, 0})},
                         {"targets", integers({1}, {-1})},
                         {"weights", floats({1}, {1})}}),
              HasSubstr("reads target -1 at element 0; expected 0 to 1"));
}

// bf16 has 8 significant bits, fp16 11: 1 + 2^-8 lies halfway between 1 and 1 + 2^-7 and goes to
// the even one, 1 + 3 * 2^-8 halfway to 1 + 2^-6.
TEST(Rounding, narrowResultsAreRoundedAndWideOnesAreNot) {
  double step = std::ldexp(1, -8);
  Inputs inputs = {{"x", floats({3}, {1, 1, 1})}, {"y", floats({3}, {step, 3 * step, 1e-9})}};
  auto added = [&](const std::string &type) {
    return runText("lm.layer_class @f(%x: tensor<3x" + type + ">, %y: tensor<3x" + type +
                       ">) -> tensor<3x" + type + "> { %z = lm.add %x, %y : tensor<3x" + type +
                       "> lm.return %z : tensor<3x" + type + "> }",
                   inputs)[0]
        .floats;
  };
  EXPECT_THAT(added("bf16"), ElementsAre(1, 1 + 4 * step, 1));
  EXPECT_THAT(added("f16"), ElementsAre(1 + step, 1 + 3 * step, 1));
  EXPECT_THAT(added("f32"), ElementsAre(1 + step, 1 + 3 * step, 1 + 1e-9));
}

TEST(RandomTensor, dependsOnSeedAndNameAlone) {
  MLIRContext context;
  auto type = RankedTensorType::get({1000}, Builder(&context).getF32Type());
  Tensor first = randomTensor(type, 1, "x", 2, 0.5);
  EXPECT_EQ(first.floats, randomTensor(type, 1, "x", 2, 0.5).floats);
  EXPECT_NE(first.floats, randomTensor(type, 2, "x", 2, 0.5).floats);
  EXPECT_NE(first.floats, randomTensor(type, 1, "y", 2, 0.5).floats);
  EXPECT_THAT(first.floats, testing::Each(testing::AllOf(testing::Ge(1.5), testing::Lt(2.5))));
  EXPECT_THAT(first.floats, testing::Contains(testing::Lt(1.6)));
  EXPECT_THAT(first.floats, testing::Contains(testing::Gt(2.4)));
}

} // namespace
} // namespace ftlm::interpret
