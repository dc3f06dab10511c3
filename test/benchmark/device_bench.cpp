// SPDX-License-Identifier: Apache-2.0
// Measures the CPU kernels on the shapes of GPT-1 (117M parameters, 4 sequences of 512 positions).
// Run it by hand: `device_bench [products|attention|random]... [--threads N] [--repeats N]`. A
// figure is the least processor time of the repeats; what is compared takes turns in one process.
#include "runtime/device/Attention.h"
#include "runtime/device/Gemm.h"
#include "runtime/device/Philox.h"
#include "schema/GemmTiles.h"
#include "schema/WorkspaceSizes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <dnnl.hpp>
#include <fmt/format.h>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace ftlm;

namespace {

int threads = 2, repeats = 5;

std::vector<float> values(int64_t count) {
  std::minstd_rand generator(1);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> result(static_cast<size_t>(count));
  std::generate(result.begin(), result.end(), [&] { return distribution(generator); });
  return result;
}

double processorSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The least processor time of each of `runs`, which take turns. All threads count, and what other
/// programs take does not.
std::vector<double> time(const std::vector<std::function<void()>> &runs) {
  std::vector<double> best(runs.size(), 1e30);
  for (int repeat = 0; repeat <= repeats; ++repeat)
    for (size_t i = 0; i < runs.size(); ++i) {
      double start = processorSeconds();
      runs[i]();
      if (repeat > 0) // the first is to warm up
        best[i] = std::min(best[i], processorSeconds() - start);
    }
  return best;
}

struct Shape {
  const char *name;
  bool transposeA, transposeB;
  int64_t m, n, k;
};

const Shape shapes[] = {
    {"qkv", false, false, 2048, 2304, 768},         {"projection", false, false, 2048, 768, 768},
    {"mlp up", false, false, 2048, 3072, 768},      {"mlp down", false, false, 2048, 768, 3072},
    {"head", false, true, 2048, 40481, 768},        {"qkv dx", false, true, 2048, 768, 2304},
    {"projection dx", false, true, 2048, 768, 768}, {"mlp up dx", false, true, 2048, 768, 3072},
    {"mlp down dx", false, true, 2048, 3072, 768},  {"head dx", false, false, 2048, 768, 40481},
    {"qkv dw", true, false, 768, 2304, 2048},       {"projection dw", true, false, 768, 768, 2048},
    {"mlp up dw", true, false, 768, 3072, 2048},    {"mlp down dw", true, false, 3072, 768, 2048},
    {"head dw", true, false, 40481, 768, 2048}};

/// oneDNN's matmul primitive on one thread; weights in the layout given or in the one it likes.
std::function<void()> primitive(const Shape &s, float *a, float *b, float *c, bool reorder) {
  using dnnl::memory;
  auto f32 = memory::data_type::f32;
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  auto strides = [](bool transpose, int64_t rows, int64_t columns) {
    return transpose ? memory::dims{1, rows} : memory::dims{columns, 1};
  };
  memory::desc ad({s.m, s.k}, f32, strides(s.transposeA, s.m, s.k)),
      bd({s.k, s.n}, f32, strides(s.transposeB, s.k, s.n)), cd({s.m, s.n}, f32, {s.n, 1}),
      any({s.k, s.n}, f32, memory::format_tag::any);
  dnnl::matmul::primitive_desc description({ad, reorder ? any : bd, cd}, engine);
  memory am(ad, engine, a), bm(bd, engine, b), cm(cd, engine, c), weights = bm;
  if (reorder) {
    weights = memory(description.weights_desc(), engine);
    dnnl::reorder(bm, weights).execute(stream, bm, weights);
  }
  return [=, run = dnnl::matmul(description)] {
    run.execute(stream, {{DNNL_ARG_SRC, am}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, cm}});
    stream.wait();
  };
}

void products() {
  ThreadPool one(1);
  fmt::print("\nproducts, GFLOP/s of a thread\n{:15}{:>22}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
             "", "m n k", "tile", "whole", "matmul", "reordered", "512x1024", "tile");
  for (const Shape &s : shapes) {
    auto a = values(s.m * s.k), b = values(s.k * s.n), c = values(s.m * s.n);
    auto tiled = [&](ThreadPool &threadPool, int64_t tileM, int64_t tileN) {
      return [&, tileM, tileN] {
        gemm(threadPool,
             {a.data(), b.data(), nullptr, c.data(), s.m, s.n, s.k, s.transposeA ? s.m : s.k,
              s.transposeB ? s.k : s.n, s.n, s.transposeA, s.transposeB, tileM, tileN});
      };
    };
    GemmTile tile = gemmTile(s.m, s.n, s.k);
    auto seconds = time({tiled(one, s.m, s.n), primitive(s, a.data(), b.data(), c.data(), false),
                         primitive(s, a.data(), b.data(), c.data(), true), tiled(one, 512, 1024),
                         tiled(one, tile.m, tile.n)});
    fmt::print("{:15}{:>22}", s.name, fmt::format("{} {} {}", s.m, s.n, s.k));
    fmt::print("{:>12}", fmt::format("{}x{}", tile.m, tile.n));
    for (double t : seconds)
      fmt::print("{:10.0f}", 2e-9 * double(s.m) * double(s.n) * double(s.k) / t);
    fmt::print("\n");
  }
}

/// The products of attention alone: two a block of queries and keys, and five in the gradient.
/// `out` takes what they write.
void bareProducts(ThreadPool &pool, const AttentionCall &c, bool gradient,
                  std::vector<float> &out) {
  int64_t ld = attentionRowFloats(c.time), width = c.heads * c.headSize, size = c.headSize;
  int64_t blocks = (c.time + attentionQueries - 1) / attentionQueries;
  pool.parallelFor(c.batch * c.heads * blocks, blocks, [&](int64_t begin, int64_t end, int thread) {
    float *s = c.workspace + thread * c.workspaceFloats;
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t first = unit % blocks * attentionQueries, h = unit / blocks % c.heads,
              b = unit / blocks / c.heads, rows = std::min(attentionQueries, c.time - first);
      const float *q = c.q.row(c.position(b, first), h, size);
      float *o = out.data() + c.position(b, first) * width + h * size;
      for (int64_t key = 0; key < first + rows; key += attentionKeys) {
        int64_t keys = std::min(attentionKeys, first + rows - key);
        int64_t kv = h / (c.heads / c.kvHeads);
        const float *k = c.k.row(c.position(b, key), kv, size);
        float *dk = out.data() + c.position(b, key) * width + h * size;
        for (int i = 0; i < (gradient ? 2 : 1); ++i) {
          dnnl_sgemm('N', 'T', rows, keys, size, 1, q, c.q.stride, k, c.k.stride, 0, s, ld);
          dnnl_sgemm('N', 'N', rows, size, keys, 1, s, ld, k, c.k.stride, 1, o, width);
        }
        if (gradient)
          dnnl_sgemm('T', 'N', keys, size, rows, 1, s, ld, q, c.q.stride, 1, dk, width);
      }
    }
  });
}

void attentions(ThreadPool &pool) {
  fmt::print("\nattention, milliseconds of all threads\n{:26}{:>10}{:>10}{:>10}{:>10}\n",
             "batch time heads/kv size", "forward", "+ dropout", "gradient", "+ dropout");
  struct {
    int64_t batch, time, heads, kvHeads, headSize;
  } const all[] = {{4, 512, 12, 12, 64}, {1, 2048, 12, 12, 64}, {16, 128, 12, 12, 64},
                   {4, 512, 12, 4, 64},  {4, 511, 12, 12, 64},  {4, 512, 8, 8, 128}};
  for (const auto &s : all) {
    int64_t width = (s.heads + 2 * s.kvHeads) * s.headSize, positions = s.batch * s.time;
    auto qkv = values(positions * width), dQkv = qkv,
         out = values(positions * s.heads * s.headSize), dOut = out,
         lse = values(positions * s.heads);
    int64_t floats = attentionWorkspaceBytes(s.time, s.headSize) / 4;
    std::vector<float> workspace(static_cast<size_t>(floats * threads));
    std::vector<int32_t> examples(static_cast<size_t>(s.batch), 3);
    int64_t random[2] = {1, 2};
    AttentionCall call{};
    call.batch = s.batch, call.time = s.time, call.heads = s.heads, call.kvHeads = s.kvHeads;
    call.headSize = s.headSize, call.scale = 1 / std::sqrt(static_cast<float>(s.headSize));
    call.random = random, call.examples = examples.data(), call.workspace = workspace.data();
    call.workspaceFloats = floats;
    call.q = {qkv.data(), width};
    call.k = {qkv.data() + s.heads * s.headSize, width};
    call.v = {qkv.data() + (s.heads + s.kvHeads) * s.headSize, width};
    AttentionCall dropping = call;
    dropping.dropout = 0.1;
    auto forward = [&](const AttentionCall &c) {
      return [&] { attention(pool, c, out.data(), lse.data()); };
    };
    auto gradient = [&](const AttentionCall &c) {
      return [&] {
        attentionGrad(pool, c, dOut.data(), out.data(), lse.data(), {dQkv.data(), width},
                      {dQkv.data() + s.heads * s.headSize, width},
                      {dQkv.data() + (s.heads + s.kvHeads) * s.headSize, width});
      };
    };
    auto seconds =
        time({[&] { bareProducts(pool, call, false, out); }, forward(call), forward(dropping),
              [&] { bareProducts(pool, call, true, out); }, gradient(call), gradient(dropping)});
    fmt::print("{:26}",
               fmt::format("{} {} {}/{} {}", s.batch, s.time, s.heads, s.kvHeads, s.headSize));
    for (double t : seconds)
      fmt::print("{:10.2f}", t * 1e3);
    fmt::print("\n");
  }
}

/// Words of 256-word rows, as attention asks for them, one at a time and with vectors.
void randomWords() {
  constexpr uint32_t rows = 20000;
  std::vector<uint32_t> words(256);
  auto seconds = time({[&] {
                         for (uint32_t row = 0; row < rows; ++row)
                           for (uint32_t i = 0; i < 64; ++i) {
                             auto four = philox4x32({i, 1, 2, row}, {3, 4});
                             std::copy(four.begin(), four.end(), words.begin() + 4 * i);
                           }
                       },
                       [&] {
                         for (uint32_t row = 0; row < rows; ++row)
                           philoxFill(words, {0, 1, 2, row}, {3, 4});
                       }});
  fmt::print("\nrandom words, nanoseconds each\n{:10}{:10.3f}\n{:10}{:10.3f}\n", "scalar",
             seconds[0] * 1e9 / (256.0 * rows), "vectors", seconds[1] * 1e9 / (256.0 * rows));
}

[[noreturn]] void usage() {
  fmt::print(stderr, "usage: device_bench [products|attention|random]... [--threads N] "
                     "[--repeats N]\n");
  std::exit(2);
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> parts;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--threads" || word == "--repeats") {
      int value = i + 1 < argc ? std::atoi(argv[++i]) : 0;
      if (value < 1)
        usage();
      (word == "--threads" ? threads : repeats) = value;
    } else if (word == "products" || word == "attention" || word == "random") {
      parts.push_back(word);
    } else {
      usage();
    }
  }
  auto wanted = [&](const char *part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  ThreadPool pool(threads);
  if (wanted("random"))
    randomWords();
  if (wanted("attention"))
    attentions(pool);
  if (wanted("products"))
    products();
}
