// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Packing.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace ftlm {
namespace {

bool meetInTime(const Interval &a, const Interval &b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Places the intervals in the given order, each at the gap that it fills best among the placed
/// ones that it meets in time. Returns the size of the region.
int64_t place(std::vector<Interval> &intervals, const std::vector<size_t> &order) {
  std::vector<size_t> byOffset; // placed intervals, by offset
  int64_t size = 0;
  for (size_t index : order) {
    Interval &interval = intervals[index];
    int64_t bytes = alignedBytes(interval.bytes), end = 0;
    int64_t best = -1, bestGap = std::numeric_limits<int64_t>::max();
    for (size_t other : byOffset) {
      const Interval &placed = intervals[other];
      if (!meetInTime(interval, placed))
        continue;
      if (int64_t gap = placed.offset - end; gap >= bytes && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, placed.offset + alignedBytes(placed.bytes));
    }
    interval.offset = best >= 0 ? best : end;
    size = std::max(size, interval.offset + bytes);
    auto at =
        std::upper_bound(byOffset.begin(), byOffset.end(), interval.offset,
                         [&](int64_t offset, size_t i) { return offset < intervals[i].offset; });
    byOffset.insert(at, index);
  }
  return size;
}

} // namespace

int64_t packingLowerBound(const std::vector<Interval> &intervals) {
  std::vector<std::pair<int64_t, int64_t>>
      events; // time, change; ends come after starts of the same time
  for (const Interval &interval : intervals) {
    events.push_back({2 * interval.first, alignedBytes(interval.bytes)});
    events.push_back({2 * interval.last + 1, -alignedBytes(interval.bytes)});
  }
  std::sort(events.begin(), events.end());
  int64_t now = 0, most = 0;
  for (auto &[time, change] : events)
    most = std::max(most, now += change);
  return most;
}

int64_t pack(std::vector<Interval> &intervals) {
  int64_t bound = packingLowerBound(intervals);
  using Key = std::function<int64_t(const Interval &)>;
  const std::vector<Key> keys = {
      [](const Interval &i) { return -i.bytes; },
      [](const Interval &i) { return i.first - i.last; },
      [](const Interval &i) { return -i.bytes * (i.last - i.first + 1); },
      [](const Interval &i) { return i.first; },
  };
  std::vector<Interval> best;
  int64_t bestSize = std::numeric_limits<int64_t>::max();
  for (const Key &key : keys) {
    std::vector<size_t> order(intervals.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t l, size_t r) {
      return std::pair(key(intervals[l]), -intervals[l].bytes) <
             std::pair(key(intervals[r]), -intervals[r].bytes);
    });
    std::vector<Interval> trial = intervals;
    if (int64_t size = place(trial, order); size < bestSize) {
      bestSize = size;
      best = std::move(trial);
    }
    if (bestSize == bound)
      break;
  }
  if (intervals.empty())
    return 0;
  intervals = std::move(best);
  return bestSize;
}

std::pair<int64_t, int64_t> findOverlap(const std::vector<Interval> &intervals) {
  for (size_t i = 0; i < intervals.size(); ++i)
    for (size_t j = i + 1; j < intervals.size(); ++j) {
      const Interval &a = intervals[i], &b = intervals[j];
      if (meetInTime(a, b) && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes)
        return {static_cast<int64_t>(i), static_cast<int64_t>(j)};
    }
  return {-1, -1};
}

} // namespace ftlm
