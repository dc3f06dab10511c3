// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Lifetimes.h"
#include "compiler/memory/Packing.h"
#include "compiler/memory/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_PLANMEMORY
#include "compiler/memory/Passes.h.inc"

namespace {

struct PlanMemoryPass : impl::PlanMemoryBase<PlanMemoryPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t persistent = 0;
    for (auto buffer : module.getOps<planir::BufferOp>()) {
      buffer.setOffset(persistent);
      persistent += alignedBytes(planir::bytesOf(buffer.getType()));
      ++buffers;
    }
    int64_t shared = 0, bound = 0;
    for (auto program : module.getOps<planir::ProgramOp>()) {
      auto [size, least] = placeProgram(program, persistent);
      shared = std::max(shared, size);
      bound = std::max(bound, least);
    }
    OpBuilder b(module.getBody(), module.getBody()->begin());
    planir::ArenaOp::create(b, module.getLoc(), persistent + shared, persistent + bound);
  }

  /// Returns the size of the program's region and its lower bound.
  std::pair<int64_t, int64_t> placeProgram(planir::ProgramOp program, int64_t base) {
    Lifetimes lifetimes(program);
    std::vector<Interval> list;
    for (auto &[buffer, life] : lifetimes.buffers()) {
      auto op = buffer.getDefiningOp<planir::BufferOp>();
      list.push_back(life.first < 0
                         ? Interval{0, 0, 0}
                         : Interval{life.first, life.last, planir::bytesOf(op.getType())});
      ++buffers;
    }
    int64_t size = pack(list);
    for (auto [entry, placed] : llvm::zip_equal(lifetimes.buffers(), list))
      entry.first.getDefiningOp<planir::BufferOp>().setOffset(base + placed.offset);
    return {size, packingLowerBound(list)};
  }
};

} // namespace
} // namespace ftlm
