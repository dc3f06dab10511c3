// SPDX-License-Identifier: Apache-2.0
// How much scratch the runtime's instructions need: the compiler reserves it in the arena, the
// runtime uses it.
#pragma once

#include <cstdint>

namespace ftlm {

/// Rows of queries that attention works on at a time.
inline constexpr int64_t attentionBlock = 64;

/// Scratch of one thread for attention and its gradient, in bytes: two blocks of scores over all
/// keys, and in the gradient one more.
inline constexpr int64_t attentionWorkspaceBytes(int64_t time, int64_t headSize) {
  int64_t floats = 3 * attentionBlock * time + 4 * attentionBlock * headSize + 64;
  return (floats * 4 + 63) / 64 * 64;
}

} // namespace ftlm
