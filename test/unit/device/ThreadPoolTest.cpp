// SPDX-License-Identifier: Apache-2.0
// The thread pool runs every unit once, on threads that it has, and hands on the first exception.
#include "runtime/device/ThreadPool.h"

#include <gtest/gtest.h>
#include <stdexcept>

using namespace ftlm;

namespace {

TEST(ThreadPool, RunsEveryUnitOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    for (int64_t units : {0, 1, 2, 7, 100, 1001})
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> runs(static_cast<size_t>(units));
        std::atomic<int> strange = 0;
        pool.parallelFor(units, grain, [&](int64_t begin, int64_t end, int thread) {
          strange += thread < 0 || thread >= threads || begin >= end;
          for (int64_t i = begin; i < end; ++i)
            ++runs[static_cast<size_t>(i)];
        });
        EXPECT_EQ(strange, 0);
        for (auto &count : runs)
          ASSERT_EQ(count, 1) << units << " units, grain " << grain << ", " << threads
                              << " threads";
      }
  }
}

TEST(ThreadPool, HandsOnAnExceptionAndGoesOn) {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      EXPECT_THROW(pool.parallelFor(100, 1,
                                    [](int64_t begin, int64_t end, int) {
                                      if (begin <= 42 && 42 < end)
                                        throw std::runtime_error("unit 42");
                                    }),
                   std::runtime_error);
      std::atomic<int64_t> done = 0;
      pool.parallelFor(100, 1, [&](int64_t begin, int64_t end, int) { done += end - begin; });
      EXPECT_EQ(done, 100);
    }
  }
}

} // namespace
