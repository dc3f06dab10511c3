// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/Attention.h"

#include "runtime/base/Error.h"
#include "runtime/device/Philox.h"
#include "runtime/device/SoftmaxRows.h"
#include "schema/WorkspaceSizes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <dnnl.h>
#include <limits>
#include <numbers>

namespace ftlm {
namespace {

constexpr int64_t queryBlock = attentionQueries, keyBlock = attentionKeys;
static_assert(keyBlock % queryBlock == 0 && keyBlock % softmaxLanes == 0,
              "every query of a block sees the first key of each block of keys that it meets");

void product(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
             int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  FTLM_CHECK(dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success,
             "oneDNN refused a product of attention");
}

/// Queries [first, first + rows) of head h against keys [key, key + keys) of example b.
struct Block {
  int64_t b, h, first, rows, key, keys;

  /// Keys of the block that row r sees.
  int64_t visible(int64_t r) const { return std::min(keys, first + r + 1 - key); }
};

/// The random words of a block's rows.
class Dropout {
public:
  explicit Dropout(const AttentionCall &call)
      : call(call), limit(static_cast<int32_t>(std::ceil(call.dropout * 0x1p24))) {}

  /// What row r keeps; valid until the next call.
  RowDropout row(const Block &block, int64_t r) {
    if (call.dropout == 0)
      return {};
    // A counter makes the words of four elements; the row may begin at any of the four.
    auto element =
        static_cast<uint64_t>((block.h * call.time + block.first + r) * call.time + block.key);
    uint64_t skipped = element % 4;
    auto count = (skipped + static_cast<uint64_t>(block.visible(r)) + philoxBlock - 1) /
                 philoxBlock * philoxBlock;
    auto seed = static_cast<uint64_t>(call.random[0]);
    philoxFill({words.data(), count},
               {static_cast<uint32_t>(element / 4), static_cast<uint32_t>(call.examples[block.b]),
                static_cast<uint32_t>(call.random[1]), call.site},
               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    return {words.data() + skipped, limit};
  }

private:
  const AttentionCall &call;
  int32_t limit;
  // One block more than the keys: of a row that does not begin at a multiple of 4, and of the
  // vector that reads behind the last key.
  alignas(64) std::array<uint32_t, keyBlock + philoxBlock> words;
};

/// What the kept probabilities are multiplied by.
float keepFactor(const AttentionCall &c) {
  return static_cast<float>(1.0 / (1.0 - c.dropout));
}

/// The scores of a block to base 2.
void scores(const AttentionCall &c, const Block &k, int64_t kv, float *s, int64_t ld) {
  product('N', 'T', k.rows, k.keys, c.headSize, c.scale * std::numbers::log2e_v<float>,
          c.q.row(c.position(k.b, k.first), k.h, c.headSize), c.q.stride,
          c.k.row(c.position(k.b, k.key), kv, c.headSize), c.k.stride, 0, s, ld);
}

/// Zero what row r does not see and its sweep has not cleared.
void clearBehind(const Block &block, int64_t r, float *row) {
  int64_t cleared = (block.visible(r) + softmaxLanes - 1) / softmaxLanes * softmaxLanes;
  if (cleared < block.keys)
    std::fill(row + cleared, row + block.keys, 0.0f);
}

/// The outputs of a block of queries, over blocks of keys: sums so far are rescaled whenever a
/// larger score appears.
void attendQueries(const AttentionCall &c, Block block, float *s, float *out, float *lse) {
  int64_t width = c.heads * c.headSize, ld = attentionRowFloats(c.time);
  int64_t kv = block.h / (c.heads / c.kvHeads);
  float *o = out + c.position(block.b, block.first) * width + block.h * c.headSize;
  Dropout dropout(c);
  std::array<float, queryBlock> maximum, sum;
  maximum.fill(-std::numeric_limits<float>::infinity());
  sum.fill(0);
  for (; block.key < block.first + block.rows; block.key += keyBlock) {
    block.keys = std::min(keyBlock, block.first + block.rows - block.key);
    scores(c, block, kv, s, ld);
    for (int64_t r = 0; r < block.rows; ++r) {
      auto i = static_cast<size_t>(r);
      float *row = s + r * ld;
      float most = rowMaximum(row, block.visible(r), maximum[i]);
      if (most != maximum[i] && block.key > 0) {
        float factor = exponential2(maximum[i] - most);
        sum[i] *= factor;
        rowScale(o + r * width, c.headSize, factor);
      }
      maximum[i] = most;
      sum[i] += rowExponentials(row, block.visible(r), most, dropout.row(block, r));
      clearBehind(block, r, row);
    }
    product('N', 'N', block.rows, c.headSize, block.keys, 1, s, ld,
            c.v.row(c.position(block.b, block.key), kv, c.headSize), c.v.stride,
            block.key > 0 ? 1.0f : 0.0f, o, width);
  }
  float *rowLse = lse + (block.b * c.heads + block.h) * c.time + block.first;
  for (int64_t r = 0; r < block.rows; ++r) {
    auto i = static_cast<size_t>(r);
    rowScale(o + r * width, c.headSize, keepFactor(c) / sum[i]);
    rowLse[r] = static_cast<float>((maximum[i] + std::log2(double(sum[i]))) * std::numbers::ln2);
  }
}

} // namespace

void attention(ThreadPool &pool, const AttentionCall &c, float *out, float *lse) {
  int64_t blocks = (c.time + queryBlock - 1) / queryBlock;
  pool.parallelFor(c.batch * c.heads * blocks, 1, [&](int64_t begin, int64_t end, int thread) {
    float *workspace = c.workspace + thread * c.workspaceFloats;
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t first = unit % blocks * queryBlock;
      attendQueries(c,
                    {.b = unit / blocks / c.heads,
                     .h = unit / blocks % c.heads,
                     .first = first,
                     .rows = std::min(queryBlock, c.time - first),
                     .key = 0,
                     .keys = 0},
                    workspace, out, lse);
    }
  });
}

void attentionGrad(ThreadPool &pool, const AttentionCall &c, const float *dOut, const float *out,
                   const float *lse, HeadRows<float> dQ, HeadRows<float> dK, HeadRows<float> dV) {
  int64_t width = c.heads * c.headSize, group = c.heads / c.kvHeads,
          ld = attentionRowFloats(c.time), lastBlock = (c.time - 1) / queryBlock * queryBlock;
  float keep = keepFactor(c);

  // One block: adds to dQ of its queries, dK and dV of its keys, or sets them.
  auto gradient = [&](const Block &k, float *p, const float *dots, bool firstKeys,
                      bool firstQueries, Dropout &dropout) {
    int64_t kv = k.h / group, queries = c.position(k.b, k.first), keys = c.position(k.b, k.key);
    float *ds = p + queryBlock * ld;
    const float *dO = dOut + queries * width + k.h * c.headSize;
    const float *rowLse = lse + (k.b * c.heads + k.h) * c.time + k.first;
    scores(c, k, kv, p, ld);
    product('N', 'T', k.rows, k.keys, c.headSize, keep, dO, width, c.v.row(keys, kv, c.headSize),
            c.v.stride, 0, ds, ld);
    for (int64_t r = 0; r < k.rows; ++r) {
      auto logSum = static_cast<float>(rowLse[r] * std::numbers::log2e);
      rowGradient(p + r * ld, ds + r * ld, k.visible(r), logSum, dots[k.first + r],
                  dropout.row(k, r));
      clearBehind(k, r, p + r * ld);
      clearBehind(k, r, ds + r * ld);
    }
    float more = firstQueries ? 0.0f : 1.0f;
    product('T', 'N', k.keys, c.headSize, k.rows, keep, p, ld, dO, width, more,
            dV.row(keys, kv, c.headSize), dV.stride);
    product('T', 'N', k.keys, c.headSize, k.rows, c.scale, ds, ld,
            c.q.row(queries, k.h, c.headSize), c.q.stride, more, dK.row(keys, kv, c.headSize),
            dK.stride);
    product('N', 'N', k.rows, c.headSize, k.keys, c.scale, ds, ld, c.k.row(keys, kv, c.headSize),
            c.k.stride, firstKeys ? 0.0f : 1.0f, dQ.row(queries, k.h, c.headSize), dQ.stride);
  };

  // A unit is a key head: all its queries' heads add to the same keys and values, in order.
  pool.parallelFor(c.batch * c.kvHeads, 1, [&](int64_t begin, int64_t end, int thread) {
    float *workspace = c.workspace + thread * c.workspaceFloats;
    float *dots = workspace + 2 * queryBlock * ld;
    Dropout dropout(c);
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t b = unit / c.kvHeads, kv = unit % c.kvHeads;
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        for (int64_t t = 0; t < c.time; ++t) {
          int64_t at = c.position(b, t) * width + h * c.headSize;
          dots[t] = rowDot(dOut + at, out + at, c.headSize);
        }
        // The last queries see all keys of the block, so they come first and set.
        for (int64_t key = 0; key < c.time; key += keyBlock)
          for (int64_t first = lastBlock; first >= key; first -= queryBlock) {
            int64_t rows = std::min(queryBlock, c.time - first);
            gradient({b, h, first, rows, key, std::min(keyBlock, first + rows - key)}, workspace,
                     dots, key == 0, first == lastBlock && h == kv * group, dropout);
          }
      }
    }
  });
}

} // namespace ftlm
