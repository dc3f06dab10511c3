// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/Attention.h"

#include "runtime/base/Error.h"
#include "runtime/device/Philox.h"
#include "schema/WorkspaceSizes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <dnnl.h>

// The row functions are compiled for each instruction set and chosen when the program starts.
#define FTLM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

namespace ftlm {
namespace {

constexpr int64_t lanes = 16;

/// exp(x) for x <= 0, relative error below 2e-7: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2].
inline float expNegative(float x) {
  x = x < -87.0f ? -87.0f : x;
  float n = std::nearbyint(x * 1.44269504f);
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

/// The sum of 16 lanes, folded in halves.
inline float foldSum(const float *lane) {
  float sum[lanes];
  std::copy_n(lane, lanes, sum);
  for (int64_t width = lanes / 2; width >= 1; width /= 2)
    for (int64_t i = 0; i < width; ++i)
      sum[i] += sum[i + width];
  return sum[0];
}

/// row = exp(row - maximum); returns the sum.
FTLM_CLONES float expRow(float *row, int64_t count, float maximum) {
  float sums[lanes] = {};
  int64_t whole = count / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) {
      float e = expNegative(row[i + l] - maximum);
      row[i + l] = e;
      sums[l] += e;
    }
  for (int64_t i = whole; i < count; ++i) {
    row[i] = expNegative(row[i] - maximum);
    sums[i - whole] += row[i];
  }
  return foldSum(sums);
}

FTLM_CLONES float maxRow(const float *row, int64_t count) {
  float most[lanes];
  std::fill_n(most, lanes, row[0]);
  int64_t whole = count / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes)
    for (int64_t l = 0; l < lanes; ++l)
      most[l] = most[l] < row[i + l] ? row[i + l] : most[l];
  for (int64_t i = whole; i < count; ++i)
    most[0] = most[0] < row[i] ? row[i] : most[0];
  return *std::max_element(most, most + lanes);
}

FTLM_CLONES void scaleRow(float *row, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i)
    row[i] *= factor;
}

FTLM_CLONES float dotRow(const float *a, const float *b, int64_t count) {
  float sums[lanes] = {};
  int64_t whole = count / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes)
    for (int64_t l = 0; l < lanes; ++l)
      sums[l] += a[i + l] * b[i + l];
  for (int64_t i = whole; i < count; ++i)
    sums[i - whole] += a[i] * b[i];
  return foldSum(sums);
}

/// ds = p * (dp - d) * scale, written over dp.
FTLM_CLONES void scoreGradient(float *dp, const float *p, int64_t count, float d, float scale) {
  for (int64_t i = 0; i < count; ++i)
    dp[i] = p[i] * (dp[i] - d) * scale;
}

/// mask[i] = 1 / (1 - rate) where element first + i of the example is kept, else 0. `first` may be
/// anything.
FTLM_CLONES void dropoutRow(float *mask, int64_t count, int64_t first, double rate, uint32_t site,
                            int64_t seed, int64_t step, int32_t example) {
  uint32_t limit = static_cast<uint32_t>(std::ceil(rate * 16777216.0));
  float keep = static_cast<float>(1.0 / (1.0 - rate));
  for (int64_t i = 0; i < count;) {
    int64_t element = first + i;
    auto words = philox4x32({static_cast<uint32_t>(element / 4), static_cast<uint32_t>(example),
                             static_cast<uint32_t>(step), site},
                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    for (int64_t w = element % 4; w < 4 && i < count; ++w, ++i)
      mask[i] = (words[static_cast<size_t>(w)] >> 8) >= limit ? keep : 0.0f;
  }
}

FTLM_CLONES void mulRow(float *row, const float *by, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    row[i] *= by[i];
}

void product(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
             int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  FTLM_CHECK(dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success,
             "oneDNN refused a product of attention");
}

/// Where the parts of one head begin, and the strides between positions.
struct Head {
  const float *q, *k, *v;
  int64_t stride;
};

Head headOf(const AttentionCall &c, const float *qkv, int64_t b, int64_t h) {
  int64_t stride = (c.heads + 2 * c.kvHeads) * c.headSize;
  int64_t kv = h / (c.heads / c.kvHeads);
  const float *base = qkv + b * c.time * stride;
  return {base + h * c.headSize, base + (c.heads + kv) * c.headSize,
          base + (c.heads + c.kvHeads + kv) * c.headSize, stride};
}

void maskOf(const AttentionCall &c, float *mask, int64_t count, int64_t b, int64_t h, int64_t t) {
  dropoutRow(mask, count, (h * c.time + t) * c.time, c.dropout, c.site, c.random[0], c.random[1],
             c.examples[b]);
}

} // namespace

void attention(ThreadPool &pool, const AttentionCall &c, float *out, float *lse) {
  int64_t blocks = (c.time + attentionBlock - 1) / attentionBlock;
  int64_t width = c.heads * c.headSize;
  pool.parallelFor(c.batch * c.heads * blocks, 1, [&](int64_t begin, int64_t end, int thread) {
    float *scores = c.workspace + thread * c.workspaceFloats;
    float *mask = scores + attentionBlock * c.time;
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t block = unit % blocks, h = unit / blocks % c.heads, b = unit / blocks / c.heads;
      Head head = headOf(c, c.qkv, b, h);
      int64_t first = block * attentionBlock, rows = std::min(attentionBlock, c.time - first),
              keys = first + rows;
      product('N', 'T', rows, keys, c.headSize, c.scale, head.q + first * head.stride, head.stride,
              head.k, head.stride, 0, scores, c.time);
      for (int64_t r = 0; r < rows; ++r) {
        float *row = scores + r * c.time;
        int64_t t = first + r, count = t + 1;
        float maximum = maxRow(row, count);
        float sum = expRow(row, count, maximum);
        scaleRow(row, count, 1.0f / sum);
        if (c.dropout > 0) {
          maskOf(c, mask, count, b, h, t);
          mulRow(row, mask, count);
        }
        std::fill(row + count, row + keys, 0.0f);
        lse[(b * c.heads + h) * c.time + t] = maximum + std::log(sum);
      }
      product('N', 'N', rows, c.headSize, keys, 1, scores, c.time, head.v, head.stride, 0,
              out + (b * c.time + first) * width + h * c.headSize, width);
    }
  });
}

void attentionGrad(ThreadPool &pool, const AttentionCall &c, const float *dOut, const float *out,
                   const float *lse, float *dQkv) {
  int64_t width = c.heads * c.headSize, group = c.heads / c.kvHeads;
  // A unit is a key head: all its queries' heads add to the same keys and values, in order.
  pool.parallelFor(c.batch * c.kvHeads, 1, [&](int64_t begin, int64_t end, int thread) {
    float *p = c.workspace + thread * c.workspaceFloats;
    float *dp = p + attentionBlock * c.time;
    float *mask = dp + attentionBlock * c.time;
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t kv = unit % c.kvHeads, b = unit / c.kvHeads;
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        Head head = headOf(c, c.qkv, b, h), gradient = headOf(c, dQkv, b, h);
        float *dq = const_cast<float *>(gradient.q), *dk = const_cast<float *>(gradient.k),
              *dv = const_cast<float *>(gradient.v);
        if (h == kv * group)
          for (int64_t t = 0; t < c.time; ++t) {
            std::fill_n(dk + t * head.stride, c.headSize, 0.0f);
            std::fill_n(dv + t * head.stride, c.headSize, 0.0f);
          }
        for (int64_t first = 0; first < c.time; first += attentionBlock) {
          int64_t rows = std::min(attentionBlock, c.time - first), keys = first + rows;
          const float *dO = dOut + (b * c.time + first) * width + h * c.headSize;
          const float *o = out + (b * c.time + first) * width + h * c.headSize;
          product('N', 'T', rows, keys, c.headSize, c.scale, head.q + first * head.stride,
                  head.stride, head.k, head.stride, 0, p, c.time);
          product('N', 'T', rows, keys, c.headSize, 1, dO, width, head.v, head.stride, 0, dp,
                  c.time);
          for (int64_t r = 0; r < rows; ++r) {
            int64_t t = first + r, count = t + 1;
            float *row = p + r * c.time, *dRow = dp + r * c.time;
            expRow(row, count, lse[(b * c.heads + h) * c.time + t]);
            std::fill(row + count, row + keys, 0.0f);
            std::fill(dRow + count, dRow + keys, 0.0f);
            float d = dotRow(dO + r * width, o + r * width, c.headSize);
            if (c.dropout > 0) {
              float *kept = mask + r * c.time;
              maskOf(c, kept, count, b, h, t);
              mulRow(dRow, kept, count);
            }
            scoreGradient(dRow, row, count, d, c.scale);
            if (c.dropout > 0)
              mulRow(row, mask + r * c.time, count);
          }
          // Values see the probabilities after dropout.
          product('T', 'N', keys, c.headSize, rows, 1, p, c.time, dO, width, 1, dv, head.stride);
          product('N', 'N', rows, c.headSize, keys, 1, dp, c.time, head.k, head.stride, 0,
                  dq + first * head.stride, head.stride);
          product('T', 'N', keys, c.headSize, rows, 1, dp, c.time, head.q + first * head.stride,
                  head.stride, 1, dk, head.stride);
        }
      }
    }
  });
}

} // namespace ftlm
