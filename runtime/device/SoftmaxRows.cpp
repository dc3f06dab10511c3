// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/SoftmaxRows.h"

#include <cstring>

// These functions are compiled for each instruction set and chosen when the program starts.
#define FTLM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define FTLM_INLINE [[gnu::always_inline]] inline

namespace ftlm {
namespace {

using Floats = float __attribute__((vector_size(4 * softmaxLanes)));
using Ints = int32_t __attribute__((vector_size(4 * softmaxLanes)));
static_assert(softmaxLanes == 16);
constexpr Ints laneNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

template <typename V, typename T>
FTLM_INLINE V load(const T *from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
FTLM_INLINE void store(float *to, Floats v) {
  std::memcpy(to, &v, sizeof v);
}

/// v folded in halves by `combine`, whatever the instruction set.
template <typename Combine>
FTLM_INLINE float fold(Floats v, Combine combine) {
  v = combine(v, __builtin_shuffle(v, laneNumbers ^ 8));
  v = combine(v, __builtin_shuffle(v, laneNumbers ^ 4));
  v = combine(v, __builtin_shuffle(v, laneNumbers ^ 2));
  v = combine(v, __builtin_shuffle(v, laneNumbers ^ 1));
  return v[0];
}

FTLM_INLINE float sum(Floats v) {
  return fold(v, [](Floats a, Floats b) __attribute__((always_inline)) { return a + b; });
}

/// 2^x for x <= 0 with a relative error below 1.5e-7; 2^-126 below that.
FTLM_INLINE Floats exp2Lanes(Floats x) {
  x = x < -126.0f ? Floats{} - 126.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the lowest bits.
  Floats shifted = x + 12582912.0f;
  Floats r = x - (shifted - 12582912.0f); // in [-0.5, 0.5]
  // Interpolates 2^r at Chebyshev's nodes, with 1 at 0: relative error 9.2e-9.
  Floats p = r * 1.54531634e-4f + 1.33908633e-3f;
  p = p * r + 9.61808302e-3f;
  p = p * r + 5.55035695e-2f;
  p = p * r + 2.40226507e-1f;
  p = p * r + 6.93147182e-1f;
  p = p * r + 1.0f;
  return (Floats)((Ints)p + ((Ints)shifted << 23));
}

/// -1 in the lanes that stay.
template <bool drops>
FTLM_INLINE Ints staying(RowDropout dropout, int64_t i) {
  if constexpr (!drops)
    return Ints{} - 1;
  else
    return (load<Ints>(dropout.words + i) >> 8 & 0xffffff) >= dropout.limit;
}

/// Calls body(i, inside) for each vector of a row; `inside` is -1 in the lanes before `count`.
/// Whole vectors get a constant, for which the compiler drops the test.
template <typename Body>
FTLM_INLINE void forVectors(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + softmaxLanes <= count; i += softmaxLanes)
    body(i, Ints{} - 1);
  if (i < count)
    body(i, laneNumbers < static_cast<int32_t>(count - i));
}

FTLM_INLINE Floats where(Ints mask, Floats v) {
  return (Floats)((Ints)v & mask);
}

template <bool drops>
FTLM_INLINE float exponentials(float *row, int64_t count, float maximum, RowDropout dropout) {
  Floats total = {};
  forVectors(count, [&](int64_t i, Ints inside) __attribute__((always_inline)) {
    Floats e = where(inside, exp2Lanes(load<Floats>(row + i) - maximum));
    total += e;
    store(row + i, where(staying<drops>(dropout, i), e));
  });
  return sum(total);
}

template <bool drops>
FTLM_INLINE void gradients(float *row, float *gradient, int64_t count, float logSum, float dot,
                           RowDropout dropout) {
  forVectors(count, [&](int64_t i, Ints inside) __attribute__((always_inline)) {
    Ints stays = staying<drops>(dropout, i);
    Floats p = where(inside, exp2Lanes(load<Floats>(row + i) - logSum));
    Floats d = where(stays & inside, load<Floats>(gradient + i));
    store(row + i, where(stays, p));
    store(gradient + i, p * (d - dot));
  });
}

} // namespace

FTLM_CLONES float rowMaximum(const float *row, int64_t count, float least) {
  Floats most = Floats{} + least;
  forVectors(count, [&](int64_t i, Ints inside) __attribute__((always_inline)) {
    Floats v = load<Floats>(row + i);
    v = inside ? v : Floats{} + least;
    most = v > most ? v : most;
  });
  return fold(most,
              [](Floats a, Floats b) __attribute__((always_inline)) { return a > b ? a : b; });
}

FTLM_CLONES float rowExponentials(float *row, int64_t count, float maximum, RowDropout dropout) {
  return dropout.words ? exponentials<true>(row, count, maximum, dropout)
                       : exponentials<false>(row, count, maximum, dropout);
}

FTLM_CLONES void rowGradient(float *row, float *gradient, int64_t count, float logSum, float dot,
                             RowDropout dropout) {
  if (dropout.words)
    gradients<true>(row, gradient, count, logSum, dot, dropout);
  else
    gradients<false>(row, gradient, count, logSum, dot, dropout);
}

FTLM_CLONES void rowScale(float *row, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i)
    row[i] *= factor;
}

FTLM_CLONES float rowDot(const float *a, const float *b, int64_t count) {
  Floats total = {};
  int64_t i = 0;
  for (; i + softmaxLanes <= count; i += softmaxLanes)
    total += load<Floats>(a + i) * load<Floats>(b + i);
  float rest[softmaxLanes] = {};
  for (int64_t l = 0; i + l < count; ++l)
    rest[l] = a[i + l] * b[i + l];
  return sum(total + load<Floats>(rest));
}

float exponential2(float x) {
  return exp2Lanes(Floats{} + x)[0];
}

} // namespace ftlm
