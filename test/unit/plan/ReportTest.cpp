// SPDX-License-Identifier: Apache-2.0
#include "schema/PlanReport.h"
#include "test/unit/plan/PlanBuilder.h"

#include <gmock/gmock.h>

namespace ftlm::test {
namespace {

TEST(PlanReport, CountsTheWorkOfALoopOnceARound) {
  PlanBuilder b = trainingPlan(3);
  // The body has 1 + 10 + 100 + 1000, what follows 10000 + 100000.
  EXPECT_EQ(planFacts(b.plan, "0")["ranks"][0]["flops"], 3 * 1111 + 110000);
}

TEST(PlanReport, NamesProgramsWithTheirPurpose) {
  std::string text = planText(trainingPlan(2).plan, "0");
  EXPECT_THAT(text, testing::ContainsRegex("program step +Train +8 instructions"));
  EXPECT_THAT(text, testing::ContainsRegex("program check +Evaluate +1 instructions"));
}

TEST(PlanReport, APlanThatCannotTrainHasNoWorkInAStep) {
  EXPECT_EQ(planFacts(attentionPlan().plan, "0")["ranks"][0]["flops"], 0);
}

} // namespace
} // namespace ftlm::test
