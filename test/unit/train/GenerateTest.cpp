// SPDX-License-Identifier: Apache-2.0
// Drawing a token from logits: the frequencies of many draws against the softmax, and what may not
// be drawn.
#include "runtime/train/Generate.h"
#include "test/unit/support/TemporaryFolder.h"

#include <cmath>
#include <gmock/gmock.h>

using namespace ftlm;
using testing::HasSubstr;

namespace {

const std::vector<float> logits = {0, 2, 1, -1, 50, 60}; // the last two are padding

std::vector<double> frequencies(const Sampling &sampling, int64_t vocabulary = 4,
                                int draws = 20000) {
  std::vector<double> result(logits.size(), 0);
  for (int i = 0; i < draws; ++i)
    result[static_cast<size_t>(sampleToken(logits, vocabulary, sampling, i))] += 1.0 / draws;
  return result;
}
/// Five standard deviations of a frequency of 20,000 draws, at most.
auto about(std::vector<double> values) {
  return testing::Pointwise(testing::DoubleNear(5 * std::sqrt(.25 / 20000)), values);
}

TEST(SampleToken, drawsFromTheSoftmaxAndNeverPadding) {
  double sum = 1 + std::exp(2) + std::exp(1) + std::exp(-1);
  Sampling sampling;
  for (sampling.seed = 1; sampling.seed < 4; ++sampling.seed)
    EXPECT_THAT(frequencies(sampling),
                about({1 / sum, std::exp(2) / sum, std::exp(1) / sum, std::exp(-1) / sum, 0, 0}));
  EXPECT_EQ(frequencies(sampling)[4], 0);
  EXPECT_EQ(frequencies(sampling)[5], 0);
}

TEST(SampleToken, temperatureSharpens) {
  double sum = 1 + std::exp(4) + std::exp(2) + std::exp(-2);
  EXPECT_THAT(frequencies({.temperature = .5}),
              about({1 / sum, std::exp(4) / sum, std::exp(2) / sum, std::exp(-2) / sum, 0, 0}));
  EXPECT_NEAR(frequencies({.temperature = 0})[1], 1, 1e-9);
  EXPECT_NEAR(frequencies({.temperature = 1e-30})[1], 1, 1e-9);
}

TEST(SampleToken, topKAndTopPKeepTheLikeliest) {
  double two = std::exp(2) + std::exp(1);
  auto first = about({0, std::exp(2) / two, std::exp(1) / two, 0, 0, 0});
  EXPECT_THAT(frequencies({.topK = 2}), first);
  EXPECT_NEAR(frequencies({.topK = 1})[1], 1, 1e-9);
  EXPECT_THAT(frequencies({.topK = 99}), about(frequencies({})));
  // Shares: 0.64, 0.24, 0.09, 0.03.
  EXPECT_THAT(frequencies({.topP = .8}), first);
  EXPECT_NEAR(frequencies({.topP = .6})[1], 1, 1e-9);
  EXPECT_NEAR(frequencies({.topP = 0})[1], 1, 1e-9);
}

TEST(SampleToken, sameSeedDrawsTheSame) {
  std::vector<int32_t> draws[3];
  for (int run : {0, 1, 2})
    for (int i = 0; i < 50; ++i)
      draws[run].push_back(sampleToken(logits, 4, {.seed = run == 2 ? 8u : 7u}, i));
  EXPECT_EQ(draws[0], draws[1]);
  EXPECT_NE(draws[0], draws[2]);
}

TEST(SampleToken, logitsThatAreNoNumbersAreAnError) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> spoilt = {0, bad, 1};
    EXPECT_THAT(errorOf([&] { sampleToken(spoilt, 3, {}, 0); }), HasSubstr("token 1"));
    EXPECT_EQ(errorOf([&] { sampleToken(spoilt, 1, {}, 0); }), ""); // padding may be anything
  }
}

} // namespace
