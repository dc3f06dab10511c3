// SPDX-License-Identifier: Apache-2.0
// Seeded inputs for the tests of device kernels, and the comparison of floats with a reference in
// double precision. Use `normal` for inputs and `expectNear` for results; a failure names the worst
// element. The generator is the standard library's, so inputs do not depend on the code under test.
#pragma once

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace ftlm::test {

inline std::vector<float> normal(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return distribution(generator); });
  return values;
}

/// |actual - expected| <= tolerance * (the largest expected magnitude, or `least` if that is more),
/// for every element. `least` is for sums that cancel: the magnitude of their terms.
inline void expectNear(const std::vector<float> &actual, const std::vector<double> &expected,
                       double tolerance, const char *name, double least = 0) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double size = least, worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    size = std::max(size, std::fabs(expected[i]));
    double error = std::fabs(actual[i] - expected[i]);
    if (!(error <= worst))
      worst = error, where = i;
  }
  EXPECT_LE(worst, tolerance * size)
      << name << ": element " << where << " is " << actual[where] << ", not " << expected[where];
}

} // namespace ftlm::test
