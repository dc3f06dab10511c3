// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/Philox.h"

#include "runtime/base/Error.h"
#include "runtime/device/KernelImage.h"

#include <algorithm>
#include <cmath>
#include <immintrin.h>

// GCC 12 takes the undefined vectors inside its own intrinsics for a fault.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace ftlm {
namespace {

constexpr uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
constexpr uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

// In the vector functions a 64-bit lane holds a 32-bit word of one counter. Its upper half is
// anything: the instruction that multiplies does not read it, and what it returns is the product's
// lower word above which lies its upper.

/// `count` vectors of eight counters at once; writes 32 * count words.
template <int count>
__attribute__((target("arch=x86-64-v4"))) void fill512(uint32_t *words, Counter x, Key key) {
  const __m512i m0 = _mm512_set1_epi64(multiplier0), m1 = _mm512_set1_epi64(multiplier1),
                w0 = _mm512_set1_epi64(weyl0), w1 = _mm512_set1_epi64(weyl1),
                lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  __m512i x0[count], x1[count], x2[count], x3[count];
  for (int i = 0; i < count; ++i) {
    x0[i] = _mm512_add_epi32(_mm512_set1_epi64(x[0] + 8 * static_cast<uint32_t>(i)), lane);
    x1[i] = _mm512_set1_epi64(x[1]);
    x2[i] = _mm512_set1_epi64(x[2]);
    x3[i] = _mm512_set1_epi64(x[3]);
  }
  __m512i k0 = _mm512_set1_epi64(key[0]), k1 = _mm512_set1_epi64(key[1]);
  constexpr int exclusiveOr = 0x96; // of three
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < count; ++i) {
      __m512i first = _mm512_mul_epu32(x0[i], m0), second = _mm512_mul_epu32(x2[i], m1);
      x0[i] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(second, 32), x1[i], k0, exclusiveOr);
      x2[i] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(first, 32), x3[i], k1, exclusiveOr);
      x1[i] = second;
      x3[i] = first;
    }
    k0 = _mm512_add_epi32(k0, w0);
    k1 = _mm512_add_epi32(k1, w1);
  }
  const __m512i lower = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0),
                upper = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
  for (int i = 0; i < count; ++i) {
    __m512i x01 = _mm512_mask_blend_epi32(0xAAAA, x0[i], _mm512_slli_epi64(x1[i], 32)),
            x23 = _mm512_mask_blend_epi32(0xAAAA, x2[i], _mm512_slli_epi64(x3[i], 32));
    _mm512_storeu_si512(words + 32 * i, _mm512_permutex2var_epi64(x01, lower, x23));
    _mm512_storeu_si512(words + 32 * i + 16, _mm512_permutex2var_epi64(x01, upper, x23));
  }
}

/// The same with `count` vectors of four counters; writes 16 * count words.
template <int count>
__attribute__((target("arch=x86-64-v3"))) void fill256(uint32_t *words, Counter x, Key key) {
  const __m256i m0 = _mm256_set1_epi64x(multiplier0), m1 = _mm256_set1_epi64x(multiplier1),
                w0 = _mm256_set1_epi64x(weyl0), w1 = _mm256_set1_epi64x(weyl1),
                lane = _mm256_set_epi64x(3, 1, 2, 0); // unpacking below restores the order
  __m256i x0[count], x1[count], x2[count], x3[count];
  for (int i = 0; i < count; ++i) {
    x0[i] = _mm256_add_epi32(_mm256_set1_epi64x(x[0] + 4 * static_cast<uint32_t>(i)), lane);
    x1[i] = _mm256_set1_epi64x(x[1]);
    x2[i] = _mm256_set1_epi64x(x[2]);
    x3[i] = _mm256_set1_epi64x(x[3]);
  }
  __m256i k0 = _mm256_set1_epi64x(key[0]), k1 = _mm256_set1_epi64x(key[1]);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < count; ++i) {
      __m256i first = _mm256_mul_epu32(x0[i], m0), second = _mm256_mul_epu32(x2[i], m1);
      x0[i] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(second, 32), x1[i]), k0);
      x2[i] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(first, 32), x3[i]), k1);
      x1[i] = second;
      x3[i] = first;
    }
    k0 = _mm256_add_epi32(k0, w0);
    k1 = _mm256_add_epi32(k1, w1);
  }
  for (int i = 0; i < count; ++i) {
    __m256i x01 = _mm256_blend_epi32(x0[i], _mm256_slli_epi64(x1[i], 32), 0xAA),
            x23 = _mm256_blend_epi32(x2[i], _mm256_slli_epi64(x3[i], 32), 0xAA);
    auto *out = reinterpret_cast<__m256i *>(words + 16 * i);
    _mm256_storeu_si256(out, _mm256_unpacklo_epi64(x01, x23));
    _mm256_storeu_si256(out + 1, _mm256_unpackhi_epi64(x01, x23));
  }
}

void fillScalar(uint32_t *words, Counter x, Key key) {
  std::array<uint32_t, 4> four = philox4x32(x, key);
  std::copy(four.begin(), four.end(), words);
}

using Fill = void (*)(uint32_t *, Counter, Key);

/// Calls `fill`, which writes `step` words, for as long as so many are left.
void fillBy(Fill fill, uint32_t step, std::span<uint32_t> &words, Counter &x, Key key) {
  for (; words.size() >= step; words = words.subspan(step), x[0] += step / 4)
    fill(words.data(), x, key);
}

} // namespace

void philoxFill(std::span<uint32_t> words, Counter x, Key key) {
  FTLM_CHECK(words.size() % philoxBlock == 0, "random words are not a multiple of a block");
  static const bool has512 = processorHas("x86-64-v4"), has256 = processorHas("x86-64-v3");
  if (has512) {
    fillBy(fill512<4>, 128, words, x, key);
    fillBy(fill512<2>, 64, words, x, key);
  } else if (has256) {
    fillBy(fill256<2>, 32, words, x, key);
  } else {
    fillBy(fillScalar, 4, words, x, key);
  }
}

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
