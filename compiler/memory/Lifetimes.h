// SPDX-License-Identifier: Apache-2.0
// When the buffers of a plan.program are alive. Instructions are numbered in their order, a loop
// before its instructions; a buffer lives from the first instruction that touches it to the last.
// What a loop carries from one round to the next, or what is touched in it and outside, lives
// through the whole loop; what the host fills lives from the start, what it reads to the end.
#pragma once

#include "dialects/plan/Plan.h"

#include "llvm/ADT/MapVector.h"

namespace ftlm {

struct Lifetime {
  int64_t first = -1, last = -1; // -1: never touched
};

class Lifetimes {
public:
  explicit Lifetimes(planir::ProgramOp program);

  /// The instructions in their order.
  llvm::ArrayRef<mlir::Operation *> instructions() const { return order; }
  /// How many of them a loop runs: those that follow it.
  int64_t lengthOf(planir::LoopOp loop) const;
  /// The buffers of the program (roots of views), in the order in which they are declared.
  const llvm::MapVector<mlir::Value, Lifetime> &buffers() const { return lifetimes; }

private:
  void touch(mlir::Value buffer, int64_t at);
  void number(mlir::Block &block);
  void extendOver(planir::LoopOp loop, int64_t first, int64_t last,
                  const llvm::SmallDenseSet<mlir::Value> &ofHost);

  llvm::SmallVector<mlir::Operation *> order;
  llvm::MapVector<mlir::Value, Lifetime> lifetimes;
};

} // namespace ftlm
