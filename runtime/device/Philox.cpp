// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/Philox.h"

#include <cmath>

namespace ftlm {

void fillNormal(std::span<float> values, double stddev, uint64_t seed, uint32_t site) {
  std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  // Uniform in (0, 1): never 0, of which there is no logarithm.
  auto uniform = [](uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; };
  for (size_t i = 0; i < values.size(); i += 4) {
    auto words =
        philox4x32({static_cast<uint32_t>(i / 4), static_cast<uint32_t>(i >> 34), 0, site}, key);
    for (size_t pair = 0; pair < 2; ++pair) {
      double radius = std::sqrt(-2 * std::log(uniform(words[2 * pair]))) * stddev;
      double angle = 2 * M_PI * uniform(words[2 * pair + 1]);
      if (i + 2 * pair < values.size())
        values[i + 2 * pair] = static_cast<float>(radius * std::cos(angle));
      if (i + 2 * pair + 1 < values.size())
        values[i + 2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
    }
  }
}

} // namespace ftlm
