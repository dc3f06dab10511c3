// SPDX-License-Identifier: Apache-2.0
// Kernels with the interface of generated ones (schema/plan.fbs, Kernel).
#include <cstdint>

/// (lhs, rhs, result): result = lhs + rhs.
extern "C" void testAdd(void *const *arguments, const int64_t *, int64_t begin, int64_t end) {
  auto *lhs = static_cast<const float *>(arguments[0]),
       *rhs = static_cast<const float *>(arguments[1]);
  auto *result = static_cast<float *>(arguments[2]);
  for (int64_t i = begin; i < end; ++i)
    result[i] = lhs[i] + rhs[i];
}

/// (row, gradient, loss): gradient[i] = row[0] * (i + 1), loss[0] = row[1].
extern "C" void testSpread(void *const *arguments, const int64_t *, int64_t begin, int64_t end) {
  auto *row = static_cast<const float *>(arguments[0]);
  auto *gradient = static_cast<float *>(arguments[1]), *loss = static_cast<float *>(arguments[2]);
  for (int64_t i = begin; i < end; ++i)
    gradient[i] = row[0] * static_cast<float>(i + 1);
  if (begin == 0)
    loss[0] = row[1];
}
