// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 against the known answers that its authors publish with Random123, and the normal
// numbers made of it against their moments.
#include "runtime/device/Philox.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <vector>

using namespace ftlm;

namespace {

using Words = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// A file of known answers, in the folder "golden" beside the checkouts or that of FTLM_SHARED.
TEST(Philox, KnownAnswersOfAFile) {
  const char *folder = std::getenv("FTLM_SHARED");
  std::ifstream file(std::string(folder ? folder : FTLM_SHARED) + "/golden/philox4x32_10.json");
  if (!file)
    GTEST_SKIP() << "no golden/philox4x32_10.json; set FTLM_SHARED to the folder above it";
  auto words = [](const nlohmann::json &list, auto &out) {
    ASSERT_EQ(list.size(), out.size());
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<uint32_t>(std::stoul(list[i].get<std::string>(), nullptr, 16));
  };
  size_t cases = 0;
  const nlohmann::json document = nlohmann::json::parse(file);
  for (const auto &c : document.at("cases")) {
    Words counter, out;
    Key key;
    words(c.at("counter"), counter), words(c.at("key"), key), words(c.at("out"), out);
    EXPECT_EQ(philox4x32(counter, key), out) << c;
    ++cases;
  }
  EXPECT_GT(cases, 0u);
}

TEST(Philox, VectorsGiveTheSameWords) {
  for (uint32_t first : {0u, 5u, 0xfffffff0u}) // the last wraps round
    for (size_t blocks : {1u, 2u, 3u, 7u}) {
      std::vector<uint32_t> words(blocks * philoxBlock + 1, 17);
      Key key = {0xa4093822, 0x299f31d0};
      philoxFill({words.data(), words.size() - 1}, {first, 0x85a308d3, 0xffffffff, 7}, key);
      for (uint32_t i = 0; i < blocks * philoxBlock / 4; ++i) {
        Words expected = philox4x32({first + i, 0x85a308d3, 0xffffffff, 7}, key);
        for (size_t j = 0; j < 4; ++j)
          ASSERT_EQ(words[4 * i + j], expected[j]) << "first " << first << " counter " << i;
      }
      EXPECT_EQ(words.back(), 17u);
    }
}

TEST(Philox, NormalNumbersHaveTheirMoments) {
  for (size_t count : {1u, 2u, 3u, 5u, 100000u}) {
    std::vector<float> values(count + 1, 17.0f);
    fillNormal({values.data(), count}, 0.02, 1, 2);
    EXPECT_EQ(values[count], 17.0f);
    if (count < 1000)
      continue;
    double sum = 0, squares = 0, fourth = 0;
    for (size_t i = 0; i < count; ++i) {
      double x = values[i] / 0.02;
      sum += x, squares += x * x, fourth += x * x * x * x;
    }
    double n = static_cast<double>(count);
    // Five standard deviations of each estimate.
    EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
    EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
  }
}

} // namespace
