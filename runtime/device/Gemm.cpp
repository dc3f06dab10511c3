// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/Gemm.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <dnnl.h>

namespace ftlm {

void gemm(ThreadPool &pool, const GemmCall &call) {
  int64_t rows = (call.m + call.tileM - 1) / call.tileM,
          columns = (call.n + call.tileN - 1) / call.tileN;
  pool.parallelFor(rows * columns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t tile = begin; tile < end; ++tile) {
      int64_t i = tile / columns * call.tileM, j = tile % columns * call.tileN;
      int64_t m = std::min(call.tileM, call.m - i), n = std::min(call.tileN, call.n - j);
      const float *a = call.transposeA ? call.a + i : call.a + i * call.lda;
      const float *b = call.transposeB ? call.b + j * call.ldb : call.b + j;
      float *c = call.c + i * call.ldc + j;
      if (call.bias)
        for (int64_t row = 0; row < m; ++row)
          std::copy_n(call.bias + j, n, c + row * call.ldc);
      dnnl_status_t status =
          dnnl_sgemm(call.transposeA ? 'T' : 'N', call.transposeB ? 'T' : 'N', m, n, call.k, 1.0f,
                     a, call.lda, b, call.ldb, call.bias ? 1.0f : 0.0f, c, call.ldc);
      FTLM_CHECK(status == dnnl_success, "oneDNN refused a matrix product");
    }
  });
}

} // namespace ftlm
