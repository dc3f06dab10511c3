// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Packing.h"
#include "compiler/memory/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

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
    llvm::MapVector<Value, Interval> intervals;
    int64_t index = 0;
    for (Operation &op : program.getBody().front()) {
      if (auto buffer = dyn_cast<planir::BufferOp>(op)) {
        intervals.insert({buffer, Interval{-1, -1, planir::bytesOf(buffer.getType())}});
        ++buffers;
      }
      auto touch = [&](Value value) {
        auto found = intervals.find(planir::rootOf(value));
        if (found == intervals.end())
          return;
        if (found->second.first < 0)
          found->second.first = index;
        found->second.last = index;
      };
      for (Value value : planir::readsOf(&op))
        touch(value);
      for (Value value : planir::writesOf(&op))
        touch(value);
      // What the host reads after the program lives to its end, what it fills from its start.
      if (auto output = dyn_cast<planir::OutputOp>(op))
        touch(output.getBuffer());
      ++index;
    }
    std::vector<Interval> list;
    for (auto &[value, interval] : intervals)
      list.push_back(interval.first < 0 ? Interval{0, 0, 0} : interval);
    int64_t size = pack(list);
    for (auto [entry, placed] : llvm::zip_equal(intervals, list))
      entry.first.getDefiningOp<planir::BufferOp>().setOffset(base + placed.offset);
    return {size, packingLowerBound(list)};
  }
};

} // namespace
} // namespace ftlm
