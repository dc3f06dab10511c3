// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/ThreadPool.h"

#include <algorithm>
#include <omp.h>

namespace ftlm {

ThreadPool::ThreadPool(int threads) {
  // The libraries that we call must not start threads of their own: results would depend on how
  // many.
  omp_set_num_threads(1);
  for (int i = 1; i < threads; ++i)
    workers.emplace_back([this, i] {
      omp_set_num_threads(1);
      work(i);
    });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  started.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::take(int thread) {
  try {
    for (int64_t begin; (begin = next.fetch_add(piece)) < total;)
      (*current)(begin, std::min(begin + piece, total), thread);
  } catch (...) {
    std::lock_guard lock(mutex);
    if (!error)
      error = std::current_exception();
    next = total;
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    std::unique_lock lock(mutex);
    started.wait(lock, [&] { return stopping || round != seen; });
    if (stopping)
      return;
    seen = round;
    lock.unlock();
    take(thread);
    lock.lock();
    if (--busy == 0)
      finished.notify_one();
  }
}

void ThreadPool::parallelFor(int64_t units, int64_t grain,
                             const std::function<void(int64_t, int64_t, int)> &body) {
  if (units <= 0)
    return;
  if (workers.empty() || units <= grain) {
    body(0, units, 0);
    return;
  }
  {
    std::lock_guard lock(mutex);
    current = &body;
    total = units;
    // Several pieces a thread even out threads of unequal speed.
    piece = std::max(grain, units / (4 * size()) + (units % (4 * size()) != 0));
    next = 0;
    error = nullptr;
    busy = static_cast<int>(workers.size());
    ++round;
  }
  started.notify_all();
  take(0);
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return busy == 0; });
  if (error)
    std::rethrow_exception(error);
}

} // namespace ftlm
