// SPDX-License-Identifier: Apache-2.0
// Random numbers of the interpreter: the Philox generator that dropout is defined by, and random
// tensors to run modules on. Nothing is drawn: every number is a function of what it is named by.
#pragma once

#include "compiler/interpret/Tensor.h"

#include "mlir/IR/Value.h"

#include <array>

namespace ftlm::interpret {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// What dropout's masks depend on besides site and element.
struct Draw {
  int64_t seed = 0;
  int64_t step = 0;
  std::vector<int64_t> examples; // numbers of the examples of the micro-batch
};
/// From the operands of an op: {seed, step} and, where the op has them, the examples.
Draw drawOf(const Tensor &random, const Tensor *examples);

/// 1 / (1 - rate) for an element that dropout keeps, 0 for one that it drops.
double dropoutFactor(const Draw &draw, double rate, int64_t site, int64_t example, int64_t element);

/// A tensor that is a function of (seed, name): floats are uniform in `center` -/+ `spread`,
/// integers in 0 to `limit` - 1.
Tensor randomTensor(mlir::RankedTensorType type, uint64_t seed, llvm::StringRef name,
                    double center = 0, double spread = 1, int64_t limit = 1024);

/// How large the integers of `argument` may be plus one: the smallest dimension that one of its
/// users indexes with them, else 1024.
int64_t indexLimit(mlir::Value argument);

} // namespace ftlm::interpret
