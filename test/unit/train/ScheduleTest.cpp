// SPDX-License-Identifier: Apache-2.0
// Learning rates against tables computed by hand from the formula in Schedule.h.
#include "runtime/train/Schedule.h"

#include <cmath>
#include <gmock/gmock.h>

using namespace ftlm;

namespace {

std::vector<double> rates(const std::string &kind, double warmup, int64_t total,
                          double minimum = 0) {
  Schedule schedule{kind, 1, minimum, warmup, total};
  std::vector<double> result;
  for (int64_t done = 0; done <= total; ++done)
    result.push_back(schedule.rate(done));
  return result;
}
auto table(std::vector<double> values) {
  return testing::Pointwise(testing::DoubleNear(1e-12), values);
}

TEST(Schedule, constantAfterWarmUpsOf0And1AndAllAndMoreUpdates) {
  EXPECT_THAT(rates("constant", 0, 4), table({1, 1, 1, 1, 1}));
  EXPECT_THAT(rates("constant", 1, 4), table({0, 1, 1, 1, 1}));
  EXPECT_THAT(rates("constant", 2, 4), table({0, .5, 1, 1, 1}));
  EXPECT_THAT(rates("constant", 4, 4), table({0, .25, .5, .75, 1}));
  EXPECT_THAT(rates("constant", 8, 4), table({0, .125, .25, .375, .5}));
}

TEST(Schedule, linearFallsFromTheStart) {
  EXPECT_THAT(rates("linear", 0, 4), table({1, .75, .5, .25, 0}));
  EXPECT_THAT(rates("linear", 1, 4), table({0, .75, .5, .25, 0}));
  EXPECT_THAT(rates("linear", 4, 4), table({0, .1875, .25, .1875, 0}));
  EXPECT_THAT(rates("linear", 8, 4), table({0, .09375, .125, .09375, 0}));
}

TEST(Schedule, cosineIsWithoutItsFactorInTheWarmUp) {
  double a = (1 + std::sqrt(.5)) / 2; // (1 + cos(pi / 4)) / 2
  EXPECT_THAT(rates("cosine", 0, 4), table({1, a, .5, 1 - a, 0}));
  EXPECT_THAT(rates("cosine", 1, 4), table({0, 1, .5, 1 - a, 0}));
  EXPECT_THAT(rates("cosine", 4, 4), table({0, .25, .5, .75, 1}));
  EXPECT_THAT(rates("cosine", 8, 4), table({0, .125, .25, .375, .5}));
}

TEST(Schedule, fractionAndNumberOfUpdatesAreTheSameWarmUp) {
  EXPECT_EQ(rates("linear", .25, 8), rates("linear", 2, 8));
}

TEST(Schedule, minimumHoldsAfterTheWarmUpOnly) {
  EXPECT_THAT(rates("linear", 2, 4, .3), table({0, .375, .5, .3, .3}));
}

TEST(Schedule, runOfNoOrOneUpdateDividesByNothing) {
  for (const char *kind : {"linear", "cosine", "constant"})
    for (double warmup : {0.0, 0.002, 1.0, 5.0})
      for (int64_t total : {0, 1}) {
        Schedule schedule{kind, 1, 0, warmup, total};
        for (int64_t done : {0, 1, 2})
          EXPECT_TRUE(std::isfinite(schedule.rate(done))) << kind << warmup << total << done;
      }
}

TEST(Schedule, saysWhetherThePeakIsReached) {
  auto reaches = [](double warmup, int64_t total) {
    return Schedule{"constant", 1, 0, warmup, total}.reachesPeak();
  };
  EXPECT_TRUE(reaches(0, 4));
  EXPECT_TRUE(reaches(1, 4));
  EXPECT_TRUE(reaches(3, 4));
  EXPECT_FALSE(reaches(4, 4));
  EXPECT_FALSE(reaches(8, 4));
  EXPECT_TRUE(reaches(.002, 100));
}

TEST(Schedule, isAFunctionOfTheUpdatesAlone) {
  Schedule schedule{"cosine", 1, 0, 3, 50};
  std::vector<double> forward, backward;
  for (int64_t done = 0; done < 50; ++done)
    forward.push_back(schedule.rate(done));
  for (int64_t done = 49; done >= 0; --done)
    backward.insert(backward.begin(), schedule.rate(done));
  EXPECT_EQ(forward, backward);
}

} // namespace
