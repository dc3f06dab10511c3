// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient against the formulas in double precision, position by position, and
// one thread against several to the bit.
#include "runtime/device/Attention.h"
#include "runtime/device/Philox.h"
#include "schema/WorkspaceSizes.h"
#include "test/unit/device/Random.h"

#include <cstring>
#include <limits>

using namespace ftlm;
using namespace ftlm::test;

namespace {

struct Shape {
  int64_t batch, time, heads, kvHeads, headSize;
  double dropout;
  bool packed = true; // queries, keys and values in one array, or in three

  int64_t queries() const { return heads * headSize; }
  int64_t keys() const { return kvHeads * headSize; }
};

constexpr int64_t randomState[2] = {0x123456789abcdef, 41};
constexpr uint32_t site = 7;

/// The factor of a probability: 0, or 1 / (1 - rate) where it is kept.
double keepFactor(const Shape &s, int32_t example, int64_t h, int64_t t, int64_t key) {
  if (s.dropout == 0)
    return 1;
  auto element = static_cast<uint64_t>((h * s.time + t) * s.time + key);
  auto words = philox4x32(
      {static_cast<uint32_t>(element / 4), static_cast<uint32_t>(example),
       static_cast<uint32_t>(randomState[1]), site},
      {static_cast<uint32_t>(randomState[0]), static_cast<uint32_t>(randomState[0] >> 32)});
  return (words[element % 4] >> 8) * 0x1p-24 >= s.dropout ? 1 / (1 - s.dropout) : 0;
}

struct Values {
  std::vector<double> out, lse, dQ, dK, dV;
};

/// The formulas, written out. Inputs are [batch, time, heads or kvHeads, headSize].
Values reference(const Shape &s, float scale, const std::vector<int32_t> &examples,
                 const std::vector<float> &q, const std::vector<float> &k,
                 const std::vector<float> &v, const std::vector<float> &dOut) {
  Values r;
  r.out.resize(q.size()), r.dQ.resize(q.size());
  r.dK.resize(k.size()), r.dV.resize(k.size());
  r.lse.resize(static_cast<size_t>(s.batch * s.heads * s.time));
  auto size = static_cast<size_t>(s.headSize);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.time; ++t) {
        int64_t kv = h / (s.heads / s.kvHeads);
        auto at = static_cast<size_t>((b * s.time + t) * s.queries() + h * s.headSize);
        auto keyAt = [&](int64_t key) {
          return static_cast<size_t>((b * s.time + key) * s.keys() + kv * s.headSize);
        };
        std::vector<double> p(static_cast<size_t>(t) + 1), dP(p.size()), keep(p.size());
        double most = -std::numeric_limits<double>::infinity(), sum = 0, d = 0;
        for (size_t j = 0; j < p.size(); ++j) {
          for (size_t i = 0; i < size; ++i)
            p[j] += double(q[at + i]) * k[keyAt(int64_t(j)) + i];
          p[j] *= scale;
          most = std::max(most, p[j]);
        }
        for (double &value : p)
          sum += value = std::exp(value - most);
        r.lse[static_cast<size_t>((b * s.heads + h) * s.time + t)] = most + std::log(sum);
        for (size_t j = 0; j < p.size(); ++j) {
          p[j] /= sum;
          keep[j] = keepFactor(s, examples[size_t(b)], h, t, int64_t(j));
          for (size_t i = 0; i < size; ++i) {
            r.out[at + i] += p[j] * keep[j] * v[keyAt(int64_t(j)) + i];
            dP[j] += double(dOut[at + i]) * v[keyAt(int64_t(j)) + i] * keep[j];
            r.dV[keyAt(int64_t(j)) + i] += p[j] * keep[j] * dOut[at + i];
          }
          d += dP[j] * p[j];
        }
        for (size_t j = 0; j < p.size(); ++j)
          for (size_t i = 0; i < size; ++i) {
            double score = p[j] * (dP[j] - d) * scale;
            r.dQ[at + i] += score * k[keyAt(int64_t(j)) + i];
            r.dK[keyAt(int64_t(j)) + i] += score * q[at + i];
          }
      }
  return r;
}

struct Floats {
  std::vector<float> out, lse, dQ, dK, dV;
  bool operator==(const Floats &) const = default;
};

/// Rows of `width` floats lie in `array` from `offset`, `stride` apart.
void scatter(const std::vector<float> &rows, int64_t width, float *array, int64_t stride) {
  for (size_t i = 0; i < rows.size(); i += size_t(width), array += stride)
    std::copy_n(rows.begin() + int64_t(i), width, array);
}
void gather(const float *array, int64_t stride, int64_t width, std::vector<float> &rows) {
  for (size_t i = 0; i < rows.size(); i += size_t(width), array += stride)
    std::copy_n(array, width, rows.begin() + int64_t(i));
}

Floats run(const Shape &s, float scale, const std::vector<int32_t> &examples,
           const std::vector<float> &q, const std::vector<float> &k, const std::vector<float> &v,
           const std::vector<float> &dOut, int threads) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  int64_t positions = s.batch * s.time, queries = s.queries(), keys = s.keys();
  // The three arrays apart have gaps of 3, 5 and 1 floats between positions.
  int64_t packed = queries + 2 * keys, strideQ = s.packed ? packed : queries + 3,
          strideK = s.packed ? packed : keys + 5, strideV = s.packed ? packed : keys + 1;
  int64_t offsetK = s.packed ? queries : positions * strideQ,
          offsetV = s.packed ? queries + keys : offsetK + positions * strideK,
          total = s.packed ? positions * packed : offsetV + positions * strideV;
  std::vector<float> qkv(static_cast<size_t>(total), nan), dQkv = qkv;
  scatter(q, queries, qkv.data(), strideQ);
  scatter(k, keys, qkv.data() + offsetK, strideK);
  scatter(v, keys, qkv.data() + offsetV, strideV);

  int64_t floats = attentionWorkspaceBytes(s.time, s.headSize) / 4;
  // What lies in the workspace before must not matter, nor what is behind it change.
  std::vector<float> workspace(static_cast<size_t>(floats * threads + 16), nan);
  std::fill(workspace.end() - 16, workspace.end(), 17.0f);
  AttentionCall call{};
  call.batch = s.batch, call.time = s.time, call.heads = s.heads, call.kvHeads = s.kvHeads;
  call.headSize = s.headSize, call.scale = scale, call.dropout = s.dropout, call.site = site;
  call.random = randomState, call.examples = examples.data();
  call.q = {qkv.data(), strideQ};
  call.k = {qkv.data() + offsetK, strideK};
  call.v = {qkv.data() + offsetV, strideV};
  call.workspace = workspace.data(), call.workspaceFloats = floats;

  Floats r{std::vector<float>(q.size(), nan),
           std::vector<float>(static_cast<size_t>(s.batch * s.heads * s.time), nan),
           std::vector<float>(q.size(), nan), std::vector<float>(k.size(), nan),
           std::vector<float>(k.size(), nan)};
  ThreadPool pool(threads);
  attention(pool, call, r.out.data(), r.lse.data());
  attentionGrad(pool, call, dOut.data(), r.out.data(), r.lse.data(), {dQkv.data(), strideQ},
                {dQkv.data() + offsetK, strideK}, {dQkv.data() + offsetV, strideV});
  gather(dQkv.data(), strideQ, queries, r.dQ);
  gather(dQkv.data() + offsetK, strideK, keys, r.dK);
  gather(dQkv.data() + offsetV, strideV, keys, r.dV);
  EXPECT_EQ(std::count(workspace.end() - 16, workspace.end(), 17.0f), 16)
      << "attention wrote behind its workspace";
  return r;
}

/// `spread` scales the queries: large ones make probabilities of nearly 0 and 1.
void check(const Shape &s, float spread = 1) {
  SCOPED_TRACE(testing::Message() << "batch " << s.batch << " time " << s.time << " heads "
                                  << s.heads << "/" << s.kvHeads << " size " << s.headSize
                                  << " dropout " << s.dropout << " packed " << s.packed
                                  << " spread " << spread << " seeds 1, 2, 3, 4");
  auto positions = static_cast<size_t>(s.batch * s.time);
  auto q = normal(positions * size_t(s.queries()), 1), k = normal(positions * size_t(s.keys()), 2),
       v = normal(positions * size_t(s.keys()), 3),
       dOut = normal(positions * size_t(s.queries()), 4);
  for (float &value : q)
    value *= spread;
  float scale = 1.0f / std::sqrt(static_cast<float>(s.headSize));
  std::vector<int32_t> examples = {5, 1000, 3};
  Floats actual = run(s, scale, examples, q, k, v, dOut, 1);
  Values expected = reference(s, scale, examples, q, k, v, dOut);
  // A score of magnitude x has an error of some 6e-8 x, and so have probabilities.
  double tolerance = 2e-6 * std::max(spread, 1.0f);
  expectNear(actual.out, expected.out, tolerance, "out");
  expectNear(actual.lse, expected.lse, tolerance, "lse");
  expectNear(actual.dQ, expected.dQ, tolerance, "dQ", 1);
  expectNear(actual.dK, expected.dK, tolerance, "dK", spread);
  expectNear(actual.dV, expected.dV, tolerance, "dV");
  for (int threads : {2, 5})
    EXPECT_TRUE(actual == run(s, scale, examples, q, k, v, dOut, threads))
        << threads << " threads give other bits than one";
}

class AttentionShapes : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(AttentionShapes, MatchesFormulas) {
  auto [time, headSize] = GetParam();
  for (auto [heads, kvHeads] : {std::pair<int64_t, int64_t>{1, 1}, {4, 2}, {6, 2}})
    for (double dropout : {0.0, 0.5})
      check({2, time, heads, kvHeads, headSize, dropout});
}

INSTANTIATE_TEST_SUITE_P(Device, AttentionShapes,
                         testing::Combine(testing::Values(1, 3, 17, 65, 200),
                                          testing::Values(8, 12, 16, 64)));

TEST(Attention, TakesArraysApart) {
  check({2, 37, 4, 2, 12, 0.5, false});
  check({1, 130, 2, 2, 16, 0.1, false});
}

TEST(Attention, LongSequences) {
  check({1, 521, 2, 1, 16, 0.1});
  check({1, 1024, 1, 1, 8, 0});
}

TEST(Attention, LargeScores) {
  check({1, 300, 2, 2, 16, 0.1}, 30);
  check({1, 70, 2, 2, 64, 0}, 1000);
}

TEST(Attention, OtherSeedsDropOthers) {
  Shape s{1, 40, 1, 1, 8, 0.5};
  auto q = normal(320, 1), k = normal(320, 2), v = normal(320, 3);
  EXPECT_NE(run(s, 1, {5}, q, k, v, q, 1).out, run(s, 1, {6}, q, k, v, q, 1).out);
}

} // namespace
