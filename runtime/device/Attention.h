// SPDX-License-Identifier: Apache-2.0
// Causal attention and its gradient, in blocks of queries: scores of one block and one head are in
// memory, never those of all. Deterministic for any number of threads. dialects/lm/LmOps.td has the
// formulas.
#pragma once

#include "runtime/device/ThreadPool.h"

namespace ftlm {

/// What forward and gradient share. Layouts: qkv [batch, time, (heads + 2 kvHeads) * headSize],
/// out [batch, time, heads * headSize], lse [batch, heads, time].
struct AttentionCall {
  int64_t batch, time, heads, kvHeads, headSize;
  float scale;
  double dropout = 0;
  uint32_t site = 0;
  const int64_t *random = nullptr;   // {seed, step}
  const int32_t *examples = nullptr; // [batch]
  const float *qkv;
  float *workspace; // attentionWorkspaceBytes a thread
  int64_t workspaceFloats;
};

void attention(ThreadPool &pool, const AttentionCall &call, float *out, float *lse);
void attentionGrad(ThreadPool &pool, const AttentionCall &call, const float *dOut, const float *out,
                   const float *lse, float *dQkv);

} // namespace ftlm
