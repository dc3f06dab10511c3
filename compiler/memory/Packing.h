// SPDX-License-Identifier: Apache-2.0
// Packs buffers with live ranges into one region: the problem apart from the IR. Fill in intervals,
// call pack, read the offsets. Intervals whose live ranges meet never overlap in memory.
#pragma once

#include <cstdint>
#include <vector>

namespace ftlm {

/// A buffer that lives from instruction `first` to instruction `last`, both included.
struct Interval {
  int64_t first, last;
  int64_t bytes;
  int64_t offset = 0; // the answer: a multiple of packingAlignment
};

inline constexpr int64_t packingAlignment = 64;

/// The bytes that a buffer takes: rounded up to the alignment.
inline int64_t alignedBytes(int64_t bytes) {
  return (bytes + packingAlignment - 1) / packingAlignment * packingAlignment;
}

/// Sets the offsets; returns the size of the region. Deterministic. Tries several orders and keeps
/// the best.
int64_t pack(std::vector<Interval> &intervals);

/// The largest sum of (aligned) bytes live at one time: no packing is smaller.
int64_t packingLowerBound(const std::vector<Interval> &intervals);

/// Is the packing right? The first two intervals that overlap in time and memory, or {-1, -1}.
std::pair<int64_t, int64_t> findOverlap(const std::vector<Interval> &intervals);

} // namespace ftlm
