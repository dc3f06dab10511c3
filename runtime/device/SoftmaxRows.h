// SPDX-License-Identifier: Apache-2.0
// What attention does with a row of scores between its products: exponentials, dropout and their
// gradient, in one sweep. Scores are to base 2: multiplied by log2(e). The bits do not depend on
// the processor's vectors.
#pragma once

#include <cstdint>

namespace ftlm {

/// Rows may be read and are written up to the next multiple of so many floats.
inline constexpr int64_t softmaxLanes = 16;

/// Which elements of a row stay: those with words[i] >> 8 >= limit. No words: all.
struct RowDropout {
  const uint32_t *words = nullptr;
  int32_t limit = 0;
};

/// The largest of row[0, count) and `least`.
float rowMaximum(const float *row, int64_t count, float least);

/// row = 2^(row - maximum) where it stays, 0 where not and behind `count`. Returns the sum of all
/// count powers, those that do not stay, too.
float rowExponentials(float *row, int64_t count, float maximum, RowDropout dropout);

/// With p = 2^(row - logSum): gradient = p * (gradient where it stays, else 0, - dot), then row = p
/// where it stays, else 0. Both are 0 behind `count`.
void rowGradient(float *row, float *gradient, int64_t count, float logSum, float dot,
                 RowDropout dropout);

/// row *= factor.
void rowScale(float *row, int64_t count, float factor);

/// The sum of products.
float rowDot(const float *a, const float *b, int64_t count);

/// 2^x for x <= 0.
float exponential2(float x);

} // namespace ftlm
