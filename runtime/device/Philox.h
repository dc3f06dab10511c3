// SPDX-License-Identifier: Apache-2.0
// Counted random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", 2011). A number is a function of what it is for, so that it is the same on any rank and in
// any order.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace ftlm {

/// Four random words for a counter and a key.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t(0xD2511F53u) * x[0], second = uint64_t(0xCD9E8D57u) * x[2];
    x = {static_cast<uint32_t>(second >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(second),
         static_cast<uint32_t>(first >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return x;
}

/// philoxFill makes so many words at a time.
inline constexpr int64_t philoxBlock = 64;

/// words[4 * i + j] = word j of counter {x[0] + i, x[1], x[2], x[3]}, with vector instructions.
/// There is a multiple of philoxBlock words.
void philoxFill(std::span<uint32_t> words, std::array<uint32_t, 4> x, std::array<uint32_t, 2> key);

/// Fills with normal numbers of mean 0 (Box-Muller on the words of counter {element / 4, 0, 0,
/// site}).
void fillNormal(std::span<float> values, double stddev, uint64_t seed, uint32_t site);

} // namespace ftlm
