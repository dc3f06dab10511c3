// SPDX-License-Identifier: Apache-2.0
// A fixed set of threads that share out independent pieces of work. The calling thread works, too.
// Which thread gets which piece is open, so work must not depend on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ftlm {

class ThreadPool {
public:
  /// `threads` in all, the calling one included.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int size() const { return static_cast<int>(workers.size()) + 1; }

  /// Runs body(begin, end, thread) over [0, units) in pieces of at least `grain` units. An
  /// exception of a piece is thrown again here once all threads are done.
  void parallelFor(int64_t units, int64_t grain,
                   const std::function<void(int64_t, int64_t, int)> &body);

private:
  void work(int thread);
  void take(int thread);

  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable started, finished;
  uint64_t round = 0;
  int busy = 0;
  bool stopping = false;
  const std::function<void(int64_t, int64_t, int)> *current = nullptr;
  int64_t total = 0, piece = 1;
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
};

} // namespace ftlm
