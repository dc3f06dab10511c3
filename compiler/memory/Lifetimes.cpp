// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Lifetimes.h"

using namespace mlir;

namespace ftlm {

Lifetimes::Lifetimes(planir::ProgramOp program) {
  program.walk([&](planir::BufferOp buffer) { lifetimes.insert({buffer.getResult(), {}}); });
  Block &block = program.getBody().front();
  number(block);
  auto end = static_cast<int64_t>(order.size()) - 1;
  llvm::SmallDenseSet<Value> ofHost;
  for (Operation &op : block) {
    if (auto input = dyn_cast<planir::InputOp>(op)) {
      touch(input.getBuffer(), 0);
      ofHost.insert(planir::rootOf(input.getBuffer()));
    }
    if (auto output = dyn_cast<planir::OutputOp>(op)) {
      touch(output.getBuffer(), end);
      ofHost.insert(planir::rootOf(output.getBuffer()));
    }
  }
  for (auto [index, op] : llvm::enumerate(order))
    if (auto loop = dyn_cast<planir::LoopOp>(op)) {
      auto first = static_cast<int64_t>(index);
      extendOver(loop, first, first + lengthOf(loop), ofHost);
    }
}

int64_t Lifetimes::lengthOf(planir::LoopOp loop) const {
  return llvm::count_if(
      order, [&](Operation *inner) { return inner->getParentOp() == loop.getOperation(); });
}

void Lifetimes::touch(Value buffer, int64_t at) {
  auto found = lifetimes.find(planir::rootOf(buffer));
  if (found == lifetimes.end())
    return;
  Lifetime &life = found->second;
  life.first = life.first < 0 ? at : std::min(life.first, at);
  life.last = std::max(life.last, at);
}

void Lifetimes::number(Block &block) {
  for (Operation &op : block) {
    SmallVector<Value> reads = planir::readsOf(&op), writes = planir::writesOf(&op);
    auto loop = dyn_cast<planir::LoopOp>(op);
    if (reads.empty() && writes.empty() && !loop)
      continue;
    auto at = static_cast<int64_t>(order.size());
    order.push_back(&op);
    for (Value value : reads)
      touch(value, at);
    for (Value value : writes)
      touch(value, at);
    if (loop)
      number(loop.getBody().front());
  }
}

void Lifetimes::extendOver(planir::LoopOp loop, int64_t first, int64_t last,
                           const llvm::SmallDenseSet<Value> &ofHost) {
  llvm::SmallDenseSet<Value> carried = ofHost;
  loop.walk([&](planir::AccumulateOp op) {
    for (Value level : op.getLevels())
      carried.insert(planir::rootOf(level));
  });
  for (auto &[buffer, life] : lifetimes) {
    if (life.last < first || life.first > last || life.first < 0)
      continue;
    if (life.first < first || life.last > last || carried.contains(buffer)) {
      life.first = std::min(life.first, first);
      life.last = std::max(life.last, last);
    }
  }
}

} // namespace ftlm
