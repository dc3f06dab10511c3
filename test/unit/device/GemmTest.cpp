// SPDX-License-Identifier: Apache-2.0
// Matrix products against sums in double precision: transposes, bias, leading dimensions wider than
// the matrix, sizes that no tile divides; and one thread against several to the bit.
#include "runtime/device/Gemm.h"
#include "schema/GemmTiles.h"
#include "test/unit/device/Random.h"

using namespace ftlm;
using namespace ftlm::test;

namespace {

struct Product {
  int64_t m, n, k, tileM, tileN;
};

std::vector<float> run(const Product &p, bool transposeA, bool transposeB, int64_t gap,
                       const std::vector<float> &a, const std::vector<float> &b, const float *bias,
                       int threads) {
  int64_t lda = (transposeA ? p.m : p.k) + gap, ldb = (transposeB ? p.k : p.n) + gap,
          ldc = p.n + gap;
  // Every element of c between rows keeps its 17.
  std::vector<float> c(static_cast<size_t>(p.m * ldc), 17.0f);
  ThreadPool pool(threads);
  gemm(pool, {a.data(), b.data(), bias, c.data(), p.m, p.n, p.k, lda, ldb, ldc, transposeA,
              transposeB, p.tileM, p.tileN});
  return c;
}

TEST(Gemm, MatchesSums) {
  for (Product p :
       {Product{1, 1, 1, 512, 1024}, Product{5, 7, 3, 512, 1024}, Product{33, 65, 129, 16, 32},
        Product{100, 130, 70, 33, 47}, Product{257, 40, 300, 64, 512}})
    for (int variant = 0; variant < 16; ++variant) {
      bool transposeA = variant & 1, transposeB = variant & 2, withBias = variant & 4;
      int64_t gap = variant & 8 ? 5 : 0;
      SCOPED_TRACE(testing::Message()
                   << p.m << " x " << p.n << " x " << p.k << " tiles " << p.tileM << " x "
                   << p.tileN << " variant " << variant << " seeds 1, 2, 3");
      int64_t lda = (transposeA ? p.m : p.k) + gap, ldb = (transposeB ? p.k : p.n) + gap;
      auto a = normal(static_cast<size_t>((transposeA ? p.k : p.m) * lda), 1),
           b = normal(static_cast<size_t>((transposeB ? p.n : p.k) * ldb), 2),
           bias = normal(static_cast<size_t>(p.n), 3);
      std::vector<double> expected(static_cast<size_t>(p.m * (p.n + gap)), 17.0);
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j) {
          double sum = withBias ? bias[size_t(j)] : 0;
          for (int64_t l = 0; l < p.k; ++l)
            sum += double(a[size_t(transposeA ? l * lda + i : i * lda + l)]) *
                   b[size_t(transposeB ? j * ldb + l : l * ldb + j)];
          expected[size_t(i * (p.n + gap) + j)] = sum;
        }
      auto actual = run(p, transposeA, transposeB, gap, a, b, withBias ? bias.data() : nullptr, 1);
      expectNear(actual, expected, 1e-6, "c");
      for (int threads : {2, 3})
        EXPECT_EQ(actual, run(p, transposeA, transposeB, gap, a, b,
                              withBias ? bias.data() : nullptr, threads))
            << threads << " threads give other bits than one";
    }
}

/// Tiles fit the matrix, divide it evenly where it is large, and stay whole where it is small.
TEST(GemmTiles, ShareTheWorkEvenly) {
  struct Shape {
    int64_t m, n, k;
  };
  for (Shape s : {Shape{2048, 2304, 768},
                  {2048, 768, 768},
                  {2048, 768, 3072},
                  {2048, 40481, 768},
                  {768, 768, 2048},
                  {3072, 768, 2048},
                  {40481, 768, 2048},
                  {1000, 1100, 900}}) {
    SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k);
    GemmTile tile = gemmTile(s.m, s.n, s.k);
    ASSERT_TRUE(tile.m >= 128 && tile.n >= 128 && tile.m * tile.n <= 2048 * 1024)
        << tile.m << " x " << tile.n;
    int64_t rows = (s.m + tile.m - 1) / tile.m, columns = (s.n + tile.n - 1) / tile.n;
    // The time that 2 and 8 threads need, in tiles, is at most an eighth above an even share.
    for (int64_t threads : {2, 8}) {
      int64_t rounds = (rows * columns + threads - 1) / threads;
      EXPECT_LE(double(rounds * threads * tile.m * tile.n), 1.125 * double(s.m * s.n))
          << threads << " threads, " << tile.m << " x " << tile.n;
    }
  }
  for (Shape s : {Shape{1, 1, 1}, {4, 768, 200}, {60, 100, 16}}) {
    GemmTile tile = gemmTile(s.m, s.n, s.k);
    EXPECT_TRUE(tile.m >= s.m && tile.n >= s.n) << s.m << " x " << s.n << " x " << s.k;
  }
}

} // namespace
