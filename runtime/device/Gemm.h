// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN, cut into tiles among the threads. A tile is computed by one thread
// over the whole of k, so the result does not depend on how many threads there are.
#pragma once

#include "runtime/device/ThreadPool.h"

namespace ftlm {

/// c[m, n] = a[m, k] * b[k, n] + bias[n], fp32, row-major; plan.fbs (Gemm) says what the fields
/// mean.
struct GemmCall {
  const float *a, *b, *bias; // bias may be null
  float *c;
  int64_t m, n, k, lda, ldb, ldc;
  bool transposeA, transposeB;
  int64_t tileM, tileN;
};

void gemm(ThreadPool &pool, const GemmCall &call);

} // namespace ftlm
