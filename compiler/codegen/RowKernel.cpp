// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/RowKernel.h"

#include <limits>

using namespace mlir;
using namespace ftlm::kernel;

namespace ftlm::codegen {
namespace {

using lm::RowKernelOpInterface;

Access accessOf(Value result) {
  return cast<RowKernelOpInterface>(result.getDefiningOp())
      .resultAccess(cast<OpResult>(result).getResultNumber());
}

/// When the values of a group can be computed: the ops run in phases, and a phase ends where a
/// reduction over the row is needed.
class Phases {
public:
  struct Reduction {
    RowKernelOpInterface op;
    unsigned number;
    bool maximum;
    unsigned phase; // in which its terms are added
  };

  explicit Phases(dist::KernelGroupOp group) {
    for (Operation &each : group.getBody().front().without_terminator()) {
      auto op = cast<RowKernelOpInterface>(each);
      unsigned start = 0, passes = 0;
      for (Value operand : each.getOperands())
        start = std::max(start, of(operand));
      for (auto [number, reduction] : llvm::enumerate(op.reductions())) {
        reductions.push_back(
            {op, static_cast<unsigned>(number), reduction.maximum, start + reduction.pass});
        passes = std::max(passes, reduction.pass + 1);
      }
      ready[&each] = start + passes;
      last = std::max(last, start + passes);
    }
  }

  /// The phase from which on a value is known.
  unsigned of(Value value) const {
    Operation *op = value.getDefiningOp();
    return op ? ready.lookup(op) : 0;
  }

  /// The last phase in which an input is read, when `yielded` values are stored as soon as they are
  /// known and read from memory afterwards.
  unsigned lastRead(Value value, const llvm::SmallDenseSet<Value> &yielded) const {
    unsigned phase = 0;
    for (Operation *user : value.getUsers()) {
      if (!isa<RowKernelOpInterface>(user))
        continue;
      for (const Reduction &reduction : reductions)
        if (RowKernelOpInterface(reduction.op).getOperation() == user)
          phase = std::max(phase, reduction.phase);
      for (Value result : user->getResults()) {
        if (accessOf(result) == Access::Number)
          continue;
        phase = std::max(phase, of(result));
        if (!yielded.contains(result))
          phase = std::max(phase, lastRead(result, yielded));
      }
    }
    return phase;
  }

  std::vector<Reduction> reductions;
  unsigned last = 0;

private:
  DenseMap<Operation *, unsigned> ready;
};

class RowKernel final : public RowEmitter {
public:
  RowKernel(KernelBuilder &builder, dist::KernelGroupOp group)
      : RowEmitter(builder), body(group.getBody().front()), phases(group) {}

  void build() {
    auto first = cast<RowKernelOpInterface>(body.front());
    rowColumns = first.getColumns();
    int64_t rows = first.getRows(), next = 0;
    for (BlockArgument argument : body.getArguments())
      memory[argument] = k.argument(next++);
    for (Value result : body.getTerminator()->getOperands())
      outputs.push_back({result, k.argument(next++)});
    if (llvm::any_of(body.without_terminator(),
                     [](Operation &op) { return cast<RowKernelOpInterface>(op).drawsRandom(); }))
      siteBase = k.scalar(0);
    k.loop(k.begin, k.end, 1, {}, [&](Value block, ValueRange) -> SmallVector<Value> {
      zeroPartials(block);
      Value from = k.mulI(block, k.index(blockRows));
      Value to = k.minI(k.addI(from, k.index(blockRows)), k.index(rows));
      k.loop(from, to, 1, {}, [&](Value r, ValueRange) -> SmallVector<Value> {
        emitRow(block, r);
        return {};
      });
      return {};
    });
  }

  //===--- what ops ask ------------------------------------------------------===//

  Value row() override { return currentRow; }
  int64_t columns() override { return rowColumns; }
  Value number(Value value) override { return numbers.lookup(value); }
  void setNumber(Value result, Value number) override { numbers[result] = number; }
  Value address(Value value) override { return memory.lookup(value); }
  Value site(int64_t site) override { return k.addI(siteBase, k.index(site)); }
  Value total(Operation *op, unsigned reduction) override { return totals.lookup({op, reduction}); }
  Value integer(Value value) override {
    Value narrow = k.load(memory.lookup(value), currentRow, k.b.getI32Type());
    return arith::ExtUIOp::create(k.b, k.b.getI64Type(), narrow);
  }
  Value column(Value value, Chunk at) override {
    return k.loadChunk(memory.lookup(value), at.column, at.mask);
  }
  Value chunk(Value value, Chunk chunk) override {
    if (auto found = chunkValues.find(value); found != chunkValues.end())
      return found->second;
    Value result;
    if (auto base = stored.find(value); base != stored.end())
      result = k.loadChunk(base->second, at(chunk), chunk.mask);
    else if (Value from = memory.lookup(value))
      result = k.loadChunk(from, at(chunk), chunk.mask);
    else
      result = compute(value, chunk);
    chunkValues[value] = result;
    return result;
  }

private:
  Value compute(Value value, Chunk chunk) {
    return cast<RowKernelOpInterface>(value.getDefiningOp())
        .emitChunk(cast<OpResult>(value).getResultNumber(), *this, chunk);
  }

  void zeroPartials(Value block) {
    for (auto &[value, base] : outputs)
      if (isColumnSum(value))
        k.chunkLoop(rowColumns, {}, [&, to = base](Chunk chunk, ValueRange) -> SmallVector<Value> {
          k.storeChunk(k.zeroVector(), to, partialAt(block, chunk), chunk.mask);
          return {};
        });
  }

  Value partialAt(Value block, Chunk chunk) {
    return k.addI(k.mulI(block, k.index(rowColumns)), chunk.column);
  }

  void emitRow(Value block, Value r) {
    currentRow = r;
    stored.clear();
    numbers.clear();
    // Read before the loops over chunks, so that every phase can use them.
    for (Operation &op : body.without_terminator())
      for (auto [i, operand] : llvm::enumerate(op.getOperands()))
        if (cast<RowKernelOpInterface>(op).operandAccess(i) == Access::Number &&
            memory.contains(operand) && !numbers.contains(operand))
          numbers[operand] = k.load(memory.lookup(operand), currentRow, k.b.getF32Type());
    for (unsigned phase = 0; phase <= phases.last; ++phase)
      emitPhase(phase, block);
    for (auto &[value, base] : outputs)
      if (accessOf(value) == Access::Number)
        k.store(numbers.lookup(value), base, currentRow);
  }

  void emitPhase(unsigned phase, Value block) {
    SmallVector<const Phases::Reduction *> here;
    SmallVector<Value> carried;
    for (const Phases::Reduction &reduction : phases.reductions)
      if (reduction.phase == phase) {
        here.push_back(&reduction);
        carried.push_back(reduction.maximum ? k.splat(-std::numeric_limits<float>::infinity())
                                            : k.zeroVector());
      }
    SmallVector<std::pair<Value, Value>> stores, sums;
    for (auto &[value, base] : outputs) {
      if (phases.of(value) != phase || accessOf(value) == Access::Number)
        continue;
      (isColumnSum(value) ? sums : stores).push_back({value, base});
    }
    if (here.empty() && stores.empty() && sums.empty())
      return;
    SmallVector<Value> all = k.chunkLoop(rowColumns, carried, [&](Chunk chunk, ValueRange inner) {
      chunkValues.clear();
      SmallVector<Value> next;
      for (auto [reduction, sum] : llvm::zip_equal(here, inner))
        next.push_back(accumulate(*reduction, sum, chunk));
      for (auto &[value, base] : sums) {
        Value at = partialAt(block, chunk);
        Value old = k.loadChunk(base, at, chunk.mask);
        k.storeChunk(k.add(old, compute(value, chunk)), base, at, chunk.mask);
      }
      // All loads come before the stores: a result may lie where an input did.
      SmallVector<Value> values;
      for (auto &[value, base] : stores)
        values.push_back(this->chunk(value, chunk));
      for (auto [store, value] : llvm::zip_equal(stores, values))
        k.storeChunk(value, store.second, at(chunk), chunk.mask);
      return next;
    });
    for (auto [reduction, sum] : llvm::zip_equal(here, all))
      totals[{RowKernelOpInterface(reduction->op).getOperation(), reduction->number}] =
          k.fold(sum, reduction->maximum);
    for (const Phases::Reduction *reduction : here)
      RowKernelOpInterface(reduction->op).finishReduction(reduction->number, *this);
    // What was stored is read again in later phases, not computed again.
    for (auto &[value, base] : stores)
      stored[value] = base;
  }

  /// Adds a chunk to a reduction's lanes; lanes outside the mask leave them as they are.
  Value accumulate(const Phases::Reduction &reduction, Value sum, Chunk chunk) {
    Value term = RowKernelOpInterface(reduction.op).reductionTerm(reduction.number, *this, chunk);
    Value next = reduction.maximum ? arith::MaximumFOp::create(k.b, sum, term).getResult()
                                   : k.add(sum, term);
    return chunk.mask ? arith::SelectOp::create(k.b, chunk.mask, next, sum).getResult() : next;
  }

  Block &body;
  Phases phases;
  int64_t rowColumns = 0;
  Value currentRow, siteBase;
  SmallVector<std::pair<Value, Value>> outputs; // value, address
  DenseMap<Value, Value> memory;                // group inputs -> address
  DenseMap<Value, Value> stored;                // results of the row already in memory -> address
  DenseMap<Value, Value> numbers;               // one number a row
  DenseMap<Value, Value> chunkValues;           // of the chunk being emitted
  DenseMap<std::pair<Operation *, unsigned>, Value> totals;
};

/// Columns of a unit that owns a strip of columns.
constexpr int64_t strip = 64;

} // namespace

bool isColumnSum(Value value) {
  return accessOf(value) == Access::Sum;
}

void buildRowKernel(ModuleOp kernels, StringRef name, dist::KernelGroupOp group) {
  KernelBuilder k(kernels, name);
  RowKernel(k, group).build();
}

SmallVector<int64_t> inPlaceInputs(dist::KernelGroupOp group) {
  Block &body = group.getBody().front();
  Phases phases(group);
  ValueRange results = body.getTerminator()->getOperands();
  llvm::SmallDenseSet<Value> yielded(results.begin(), results.end());
  auto readByChunk = [](BlockArgument argument) {
    return llvm::all_of(argument.getUses(), [](OpOperand &use) {
      auto op = dyn_cast<RowKernelOpInterface>(use.getOwner());
      return op && op.operandAccess(use.getOperandNumber()) == Access::Row;
    });
  };
  SmallVector<int64_t> found;
  llvm::SmallDenseSet<int64_t> taken;
  for (Value result : results) {
    int64_t input = -1;
    if (accessOf(result) == Access::Row)
      for (BlockArgument argument : body.getArguments())
        if (argument.getType() == result.getType() && !taken.contains(argument.getArgNumber()) &&
            readByChunk(argument) && phases.lastRead(argument, yielded) <= phases.of(result)) {
          input = argument.getArgNumber();
          taken.insert(input);
          break;
        }
    found.push_back(input);
  }
  return found;
}

LaunchShape buildColumnSum(ModuleOp kernels, StringRef name, int64_t blocks, int64_t columns) {
  KernelBuilder k(kernels, name);
  Value partial = k.argument(0), result = k.argument(1);
  k.stripLoop(strip, columns, [&](Value from, Value to) {
    k.rangeLoop(from, to, {}, [&](Chunk c, ValueRange) -> SmallVector<Value> {
      Value sum =
          k.loop(k.index(0), k.index(blocks), 1, ValueRange(k.zeroVector()),
                 [&](Value n, ValueRange carried) {
                   Value at = k.addI(k.mulI(n, k.index(columns)), c.column);
                   return SmallVector<Value>{k.add(carried[0], k.loadChunk(partial, at, c.mask))};
                 })[0];
      k.storeChunk(sum, result, c.column, c.mask);
      return {};
    });
  });
  return {(columns + strip - 1) / strip, 4};
}

} // namespace ftlm::codegen
