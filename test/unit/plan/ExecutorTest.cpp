// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Generate.h"
#include "test/unit/plan/PlanBuilder.h"

#include <gmock/gmock.h>
#include <unistd.h>

namespace ftlm::test {
namespace {

/// Values whose sums depend on the order of the additions.
float valueOf(size_t microBatch) {
  return 1.0f / static_cast<float>(3 + 7 * microBatch) + static_cast<float>(microBatch % 3) * 1e4f;
}

/// The sum over M micro-batches as it is defined: written out, without a rule.
float treeOf(const std::vector<float> &x) {
  switch (x.size()) {
  case 1:
    return x[0];
  case 2:
    return x[0] + x[1];
  case 3:
    return (x[0] + x[1]) + x[2];
  case 4:
    return (x[0] + x[1]) + (x[2] + x[3]);
  case 5:
    return ((x[0] + x[1]) + (x[2] + x[3])) + x[4];
  case 6:
    return ((x[0] + x[1]) + (x[2] + x[3])) + (x[4] + x[5]);
  case 7:
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + x[6]);
  case 8:
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
  case 9:
    return (((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]))) + x[8];
  }
  throw std::logic_error("no tree of that size");
}

TEST(Executor, SumsMicroBatchesInATree) {
  for (size_t m = 1; m <= 9; ++m) {
    SCOPED_TRACE(m);
    PlanBuilder b = trainingPlan(static_cast<int64_t>(m));
    ASSERT_EQ(verdict(b.plan), "");
    std::vector<uint8_t> bytes = packed(b.plan);
    Executor run(*plan::GetPlan(bytes.data()), {2, ""});
    std::fill(run.value(0).begin(), run.value(0).end(), 0.5f);
    std::span<float> weights = run.input<float>(plan::Purpose::Train, plan::InputKind::Weights);
    ASSERT_EQ(weights.size(), 2 * m);
    for (size_t g = 0; g < m; ++g) {
      weights[2 * g] = valueOf(g);
      weights[2 * g + 1] = static_cast<float>(g) + 0.25f;
    }
    run.run(plan::Purpose::Train);
    auto losses = run.output<float>(plan::Purpose::Train, plan::OutputKind::Loss);
    auto gradient = run.output<float>(plan::Purpose::Train, plan::OutputKind::Gradient, 0);
    ASSERT_EQ(losses.size(), m);
    ASSERT_EQ(gradient.size(), static_cast<size_t>(units));
    for (size_t g = 0; g < m; ++g)
      EXPECT_EQ(losses[g], static_cast<float>(g) + 0.25f);
    for (size_t i = 0; i < gradient.size(); ++i) {
      std::vector<float> values;
      for (size_t g = 0; g < m; ++g)
        values.push_back(valueOf(g) * static_cast<float>(i + 1));
      EXPECT_EQ(gradient[i], treeOf(values));
      EXPECT_EQ(run.value(0)[i], 0.5f + treeOf(values));
    }
    EXPECT_EQ(run.output<float>(plan::Purpose::Train, plan::OutputKind::GradNorm)[0], gradient[0]);
  }
}

TEST(Executor, FindsProgramsAndBuffersByWhatTheyAreFor) {
  std::vector<uint8_t> bytes = packed(trainingPlan(2).plan);
  Executor run(*plan::GetPlan(bytes.data()), {1, ""});
  ASSERT_NE(run.program(plan::Purpose::Train), nullptr);
  EXPECT_EQ(run.program(plan::Purpose::Train)->name()->str(), "step");
  EXPECT_EQ(run.program(plan::Purpose::Generate), nullptr);
  EXPECT_TRUE(run.input<float>(plan::Purpose::Train, plan::InputKind::Hyper).empty());
  EXPECT_TRUE(run.input<float>(plan::Purpose::Generate, plan::InputKind::Tokens).empty());
  EXPECT_TRUE(run.output<float>(plan::Purpose::Train, plan::OutputKind::Gradient, 1).empty());
  EXPECT_THROW(run.run(plan::Purpose::Generate), Error);
}

TEST(Executor, TakesOffsetsAndStridesOfAttentionFromThePlan) {
  PlanBuilder b = attentionPlan();
  ASSERT_EQ(verdict(b.plan), "");
  std::vector<uint8_t> bytes = packed(b.plan);
  Executor run(*plan::GetPlan(bytes.data()), {2, ""});
  std::span<float> qkv = run.input<float>(plan::Purpose::Evaluate, plan::InputKind::Weights);
  for (size_t i = 0; i < qkv.size(); ++i)
    qkv[i] = static_cast<float>(i * i % 13);
  run.run(plan::Purpose::Evaluate);
  auto out = run.output<float>(plan::Purpose::Evaluate, plan::OutputKind::Loss);
  // The first position sees itself alone: both heads give its value.
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(out[i], qkv[12 + i % 4]);
}

class SessionTest : public testing::Test {
protected:
  std::filesystem::path write(const plan::PlanT &plan) {
    std::vector<std::byte> bytes = fileOf(plan, 2);
    writeFile(path, {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
    return path;
  }
  ~SessionTest() override { std::filesystem::remove(path); }

  std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("session-" + std::to_string(getpid()) + ".ftlm");
};

TEST_F(SessionTest, AStepFillsAllMicroBatchesAndRunsOnce) {
  Session session(write(trainingPlan(3).plan), 2);
  session.initialize(0);
  StepData data;
  for (float x : {1.0f, 2.0f, 4.0f})
    data.microBatches.push_back({{0, 0}, {0, 0}, {x, 10 * x}, {0}});
  StepResult result = session.step(data, 0, 0, 0.1, 0, Hyper());
  EXPECT_EQ(result.loss, 70);
  EXPECT_EQ(result.gradNorm, 7);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(session.executor().value(0)[i], 1 + 7 * static_cast<float>(i + 1));
    EXPECT_EQ(session.executor().value(1)[i], 1);
  }
  EXPECT_EQ(session.evaluate(data.microBatches[2]), 4);
}

TEST_F(SessionTest, NamesThePurposeThatAPlanDoesNotServe) {
  Session session(write(trainingPlan(1).plan), 1);
  try {
    generateTokens(session, {1}, 1, Sampling(), [](int32_t) {});
    FAIL() << "expected an error";
  } catch (const Error &error) {
    EXPECT_EQ(error.where, path.string());
    EXPECT_EQ(error.found,
              "has no program for the purpose Generate; its programs are for: Train, Evaluate");
  }
}

} // namespace
} // namespace ftlm::test
