// SPDX-License-Identifier: Apache-2.0
// How much scratch the runtime's instructions need: the compiler reserves it in the arena, the
// runtime uses it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ftlm {

/// Attention works on the scores of so many queries and keys at a time. Two such blocks (the
/// gradient's), their queries and their keys stay in a level-2 cache of 512 KiB.
inline constexpr int64_t attentionQueries = 64, attentionKeys = 256;

/// Floats between two rows of such a block. The 16 above the keys keep rows out of each other's
/// cache sets.
inline constexpr int64_t attentionRowFloats(int64_t time) {
  return std::min((time + 15) / 16 * 16, attentionKeys) + 16;
}

/// Scratch of one thread for attention and its gradient, in bytes: two blocks of scores, and a
/// number for each query.
inline constexpr int64_t attentionWorkspaceBytes(int64_t time, int64_t headSize) {
  int64_t floats = 2 * attentionQueries * attentionRowFloats(time) + (time + 15) / 16 * 16;
  return floats * 4;
}

} // namespace ftlm
