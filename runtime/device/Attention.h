// SPDX-License-Identifier: Apache-2.0
// Causal attention and its gradient, in blocks of queries and keys: scores of one block of one head
// are in memory, never those of all. Deterministic for any number of threads. dialects/lm/LmOps.td
// has the formulas.
#pragma once

#include "runtime/device/ThreadPool.h"

namespace ftlm {

/// Values of `heads` heads of size `headSize`: head h of position t of example b begins at
/// data + (b * time + t) * stride + h * headSize. Packed values are the same array with offsets.
template <typename T>
struct HeadRows {
  T *data = nullptr;
  int64_t stride = 0; // elements between positions

  T *row(int64_t position, int64_t head, int64_t headSize) const {
    return data + position * stride + head * headSize;
  }
};

/// What forward and gradient share. q has `heads` heads, k and v have `kvHeads`; query head h reads
/// key head h / (heads / kvHeads).
struct AttentionCall {
  int64_t batch, time, heads, kvHeads, headSize;
  float scale;
  double dropout = 0;
  uint32_t site = 0;
  const int64_t *random = nullptr;   // {seed, step}
  const int32_t *examples = nullptr; // [batch]
  HeadRows<const float> q, k, v;
  float *workspace; // attentionWorkspaceBytes a thread
  int64_t workspaceFloats;

  /// The row of position t of example b.
  int64_t position(int64_t b, int64_t t) const { return b * time + t; }
};

/// out [batch, time, heads * headSize], lse [batch, heads, time].
void attention(ThreadPool &pool, const AttentionCall &call, float *out, float *lse);

/// dOut and out as `out` above; dQ, dK and dV have the heads of q, k and v and are overwritten.
void attentionGrad(ThreadPool &pool, const AttentionCall &call, const float *dOut, const float *out,
                   const float *lse, HeadRows<float> dQ, HeadRows<float> dK, HeadRows<float> dV);

} // namespace ftlm
