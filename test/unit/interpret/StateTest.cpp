// SPDX-License-Identifier: Apache-2.0
// What a step does, on values worked out by hand: micro-batches, the norm, updates, assignments.
#include "test/unit/interpret/InterpretTesting.h"

#include <cmath>

using namespace mlir;
using testing::ElementsAre;

namespace ftlm::interpret {
namespace {

constexpr double tiny = 1e-14;

Tensor floats(ArrayRef<int64_t> shape, std::vector<double> values) {
  return Tensor::ofFloats(shape, std::move(values));
}

// 9 + 16 + 144 = 13^2.
TEST(State, gradNormIsThatOfAllGradients) {
  auto results = runText(R"(
    lm.layer_class @f(%a: tensor<2xf32>, %b: tensor<1xf32>) -> tensor<f32> {
      %norm = lm.grad_norm %a, %b : tensor<2xf32>, tensor<1xf32> -> tensor<f32>
      lm.return %norm : tensor<f32>
    })",
                         {{"a", floats({2}, {3, -4})}, {"b", floats({1}, {12})}});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].floats, ElementsAre(13));
}

constexpr const char *batches = R"(
  lm.layer_class @f(%a: tensor<3x2xf32>, %t: tensor<3x1x1xi32>, %c: tensor<2xf32>,
                    %table: tensor<4x1xf32>) -> (tensor<3x2xf32>, tensor<2xf32>, tensor<1x1x1xf32>) {
    %0:3 = lm.micro_batches count(3) slices(%a, %t) collected(1)
        : (tensor<3x2xf32>, tensor<3x1x1xi32>) -> (tensor<3x2xf32>, tensor<2xf32>, tensor<1x1x1xf32>) {
    ^bb0(%x: tensor<2xf32>, %i: tensor<1x1xi32>):
      %y = lm.add %x, %c : tensor<2xf32>
      %e = lm.embedding %i, %table : tensor<1x1xi32>, tensor<4x1xf32> -> tensor<1x1x1xf32>
      lm.yield %y, %x, %e : tensor<2xf32>, tensor<2xf32>, tensor<1x1x1xf32>
    }
    lm.return %0#0, %0#1, %0#2 : tensor<3x2xf32>, tensor<2xf32>, tensor<1x1x1xf32>
  })";

TEST(State, microBatchesCollectAndSum) {
  auto results = runText(batches, {{"a", floats({3, 2}, {1, 2, 10, 20, 100, 200})},
                                   {"t", Tensor::ofIntegers({3, 1, 1}, {3, 0, 3})},
                                   {"c", floats({2}, {1000, 2000})},
                                   {"table", floats({4, 1}, {1, 10, 100, 1000})}});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_THAT(results[0].floats, ElementsAre(1001, 2002, 1010, 2020, 1100, 2200));
  EXPECT_THAT(results[1].floats, ElementsAre(111, 222));
  EXPECT_THAT(results[2].floats, ElementsAre(2001));
}

// With u = 2^-53, 1 + u is 1. Numbers 0 and 1 are added first, then 2 and 3, whose 2 u then counts;
// the fifth, 0, is added to all before. One after the other the sum would stay 1.
TEST(State, microBatchesSumInATree) {
  double u = std::ldexp(1, -53);
  auto results = runText(R"(
    lm.layer_class @f(%a: tensor<5x1xf32>) -> tensor<1xf32> {
      %0 = lm.micro_batches count(5) slices(%a) collected(0) : (tensor<5x1xf32>) -> tensor<1xf32> {
      ^bb0(%x: tensor<1xf32>):
        lm.yield %x : tensor<1xf32>
      }
      lm.return %0 : tensor<1xf32>
    })",
                         {{"a", floats({5, 1}, {1, u, u, u, 0})}});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0][0], 1 + 2 * u);
}

/// Runs one update of p = 2, m = 0.5, v = 0.25 by the gradient 3.
std::vector<double> updated(const std::string &rule, const std::string &decay, double norm,
                            double clip) {
  bool sgd = rule == "sgd";
  std::string state = sgd ? "%p" : "%p, %m, %v";
  std::string types = sgd ? "tensor<1xf32>" : "tensor<1xf32>, tensor<1xf32>, tensor<1xf32>";
  auto results =
      runText("lm.layer_class @f(%p: tensor<1xf32>, %m: tensor<1xf32>, %v: tensor<1xf32>, "
              "%g: tensor<1xf32>, %norm: tensor<f32>, %hyper: tensor<8xf32>) -> (" +
                  types + ") {\n%0:" + (sgd ? "1" : "3") + " = lm.update " + rule + " " + state +
                  " by %g norm %norm hyper %hyper " + decay + " : " + types + "\nlm.return " +
                  (sgd ? "%0#0" : "%0#0, %0#1, %0#2") + " : " + types + "\n}",
              {{"p", floats({1}, {2})},
               {"m", floats({1}, {0.5})},
               {"v", floats({1}, {0.25})},
               {"g", floats({1}, {3})},
               {"norm", floats({}, {norm})},
               {"hyper", floats({8}, {0.5, 0.5, 0.75, 0.25, 0.125, clip, 0.75, 0.4375})}});
  std::vector<double> values;
  for (const Tensor &result : results)
    values.push_back(result[0]);
  return values;
}

// SGD: 2 - 0.5 (3 + 0.125 * 2) = 0.375; without decay 0.5; with the gradient clipped to half 1.25.
TEST(State, sgd) {
  EXPECT_THAT(updated("sgd", "decay", 9, 0), ElementsAre(0.375));
  EXPECT_THAT(updated("sgd", "", 9, 0), ElementsAre(0.5));
  EXPECT_THAT(updated("sgd", "", 8, 4), ElementsAre(1.25));
  EXPECT_THAT(updated("sgd", "", 2, 4), ElementsAre(0.5));
  EXPECT_THAT(updated("sgd", "", 0, 4), ElementsAre(0.5));
}

// m = 0.25 + 1.5 = 1.75, v = 0.1875 + 2.25 = 2.4375. The corrected moments are 7/3 and 39/7.
TEST(State, adamw) {
  std::vector<double> found = updated("adamw", "decay", 1, 0);
  ASSERT_EQ(found.size(), 3u);
  double step = 0.5 * (7.0 / 3) / (std::sqrt(39.0 / 7) + 0.25);
  EXPECT_NEAR(found[0], 1.875 - step, tiny);
  EXPECT_EQ(found[1], 1.75);
  EXPECT_EQ(found[2], 2.4375);
  EXPECT_NEAR(updated("adamw", "", 1, 0).at(0), 2 - step, tiny);
}

// a = 0.5 sqrt(7/16) / (3/4) = sqrt(7) / 6.
TEST(State, adamOfGpt1) {
  std::vector<double> found = updated("adam_gpt1", "decay", 1, 0);
  ASSERT_EQ(found.size(), 3u);
  double a = std::sqrt(7.0) / 6, direction = 1.75 / (std::sqrt(2.4375) + 0.25);
  EXPECT_NEAR(found[0], 2 - a * (direction + 0.25), tiny);
  EXPECT_EQ(found[1], 1.75);
  EXPECT_EQ(found[2], 2.4375);
  EXPECT_NEAR(updated("adam_gpt1", "", 1, 0).at(0), 2 - a * direction, tiny);
}

TEST(State, assignmentsAreSeenByTheNextRun) {
  Diagnosed diagnosed;
  auto module = diagnosed.parse(R"(
    lm.param @"h.*.g" layers(2) : tensor<1xf32> init <constant, 1.0>
    lm.state @"sum/h.*.g" of @"h.*.g"
    lm.layer_class @add(%x: tensor<1xf32>) -> tensor<1xf32> {
      %g = lm.use @"h.*.g" : tensor<1xf32>
      %s = lm.use @"sum/h.*.g" : tensor<1xf32>
      %t = lm.add %s, %x : tensor<1xf32>
      lm.assign @"sum/h.*.g", %t : tensor<1xf32>
      %h = lm.add %g, %g : tensor<1xf32>
      lm.assign @"h.*.g", %h : tensor<1xf32>
      %again = lm.use @"h.*.g" : tensor<1xf32>
      lm.return %again : tensor<1xf32>
    }
    lm.program objective @f(%weights: tensor<1xf32>) -> (loss: tensor<1xf32>) {
      %0 = lm.layer_call @add(%weights) layer(1) : (tensor<1xf32>) -> tensor<1xf32>
      lm.return %0 : tensor<1xf32>
    })");
  ASSERT_TRUE(module);
  Interpreter interpreter(*module);
  EXPECT_TRUE(succeeded(interpreter.setParameter("h.1.g", floats({1}, {3}))));
  for (double before : {3, 6}) {
    auto results = interpreter.run("f", {{"weights", floats({1}, {10})}});
    ASSERT_TRUE(succeeded(results)) << diagnosed.text();
    EXPECT_THAT((*results)[0].floats, ElementsAre(before));
  }
  EXPECT_THAT(interpreter.findParameter("h.1.g")->floats, ElementsAre(12));
  EXPECT_THAT(interpreter.findParameter("sum/h.1.g")->floats, ElementsAre(20));
  EXPECT_THAT(interpreter.findParameter("sum/h.0.g")->floats, ElementsAre(0));
  EXPECT_EQ(interpreter.findParameter("h.0.g"), nullptr);
}

} // namespace
} // namespace ftlm::interpret
