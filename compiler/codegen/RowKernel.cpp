// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/RowKernel.h"

#include "compiler/codegen/KernelBuilder.h"
#include "dialects/lm/Lm.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace ftlm::codegen {

bool isColumnSum(Operation *op) {
  return isa<lm::BiasGradOp, lm::NormGainGradOp>(op);
}

bool isRowOp(Operation *op) {
  return isColumnSum(op) ||
         isa<lm::EmbeddingOp, lm::NormOp, lm::ActivationOp, lm::DropoutOp, lm::AddOp,
             lm::TakePositionOp, lm::CrossEntropyOp, lm::NormDataGradOp, lm::ActivationGradOp,
             lm::CrossEntropyGradOp>(op);
}

bool hasRandom(Operation *op) {
  return isa<lm::DropoutOp>(op);
}

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The operand or result whose rows the op runs over.
static Value leading(Operation *op) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([](lm::BiasGradOp o) { return o.getAdjoint(); })
      .Case([](lm::NormGainGradOp o) { return o.getAdjoint(); })
      .Case([](lm::CrossEntropyOp o) { return o.getLogits(); })
      .Default([](Operation *o) { return o->getResult(0); });
}

int64_t rowsOf(Operation *op) {
  RankedTensorType type = tensorOf(leading(op));
  return type.getNumElements() / type.getShape().back();
}

static int64_t columnsOf(Operation *op) {
  return tensorOf(leading(op)).getShape().back();
}

namespace {

/// A sum or maximum over the columns of a row.
struct Reduction {
  Operation *op;
  unsigned number; // which of the op's reductions
  bool maximum;
  unsigned phase;
};

class RowKernel {
public:
  RowKernel(ModuleOp kernels, StringRef name, dist::KernelGroupOp group)
      : k(kernels, name), group(group), body(group.getBody().front()) {}

  void build() {
    auto yield = cast<dist::YieldOp>(body.getTerminator());
    Operation *anyOp = &body.front();
    columns = columnsOf(anyOp);
    int64_t rows = rowsOf(anyOp);
    int64_t next = 0;
    for (BlockArgument argument : body.getArguments())
      memory[argument] = k.argument(next++);
    for (Value result : yield.getOperands()) {
      outputs.push_back({result, k.argument(next++)});
    }
    if (llvm::any_of(body, [](Operation &op) { return hasRandom(&op); })) {
      random = k.argument(next++);
      examples = k.argument(next++);
      siteBase = k.scalar(0);
    }
    plan();
    k.loop(k.begin, k.end, 1, {}, [&](Value block, ValueRange) -> SmallVector<Value> {
      zeroPartials(block);
      Value first = k.mulI(block, k.index(blockRows));
      Value last = k.minI(k.addI(first, k.index(blockRows)), k.index(rows));
      k.loop(first, last, 1, {}, [&](Value r, ValueRange) -> SmallVector<Value> {
        emitRow(block, r);
        return {};
      });
      return {};
    });
  }

private:
  //===--- the plan of phases ------------------------------------------------===//

  /// The phase from which on the value (a row or a number of the row) can be computed.
  unsigned phaseOf(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return 0;
    auto found = ready.find(op);
    return found->second;
  }

  void plan() {
    for (Operation &op : body.without_terminator()) {
      unsigned phase = 0;
      for (Value operand : op.getOperands())
        phase = std::max(phase, phaseOf(operand));
      auto reduce = [&](unsigned number, bool maximum) {
        reductions.push_back({&op, number, maximum, phase++});
      };
      if (isa<lm::NormOp, lm::NormDataGradOp>(op)) {
        reduce(0, false);
        if (auto norm = dyn_cast<lm::NormDataGradOp>(op)) {
          --phase; // both sums in one phase
          reduce(1, false);
        } else {
          reduce(1, false);
        }
      } else if (isa<lm::CrossEntropyOp>(op)) {
        reduce(0, true);
        reduce(1, false);
      }
      ready[&op] = phase;
      lastPhase = std::max(lastPhase, phase);
    }
  }

  //===--- one row -----------------------------------------------------------===//

  void zeroPartials(Value block) {
    for (auto &[value, base] : outputs)
      if (isColumnSum(value.getDefiningOp()))
        k.chunkLoop(columns, {}, [&, to = base](Chunk chunk, ValueRange) -> SmallVector<Value> {
          Value at = k.addI(k.mulI(block, k.index(columns)), chunk.column);
          k.storeChunk(k.zeroVector(), to, at, chunk.mask);
          return {};
        });
  }

  void emitRow(Value block, Value r) {
    row = r;
    stored.clear();
    numbers.clear();
    // Read before the loops over chunks, so that every phase can use them.
    for (Operation &op : body.without_terminator())
      for (Value operand : numberOperands(&op))
        if (memory.contains(operand) && !numbers.contains(operand))
          numbers[operand] = k.load(memory.lookup(operand), row, k.b.getF32Type());
    for (unsigned phase = 0; phase <= lastPhase; ++phase) {
      SmallVector<const Reduction *> here;
      SmallVector<Value> carried;
      for (const Reduction &reduction : reductions)
        if (reduction.phase == phase) {
          here.push_back(&reduction);
          carried.push_back(reduction.maximum ? k.splat(-std::numeric_limits<float>::infinity())
                                              : k.zeroVector());
        }
      SmallVector<std::pair<Value, Value>> stores, sums;
      for (auto &[value, base] : outputs) {
        if (phaseOf(value) != phase)
          continue;
        if (isColumnSum(value.getDefiningOp()))
          sums.push_back({value, base});
        else if (isRow(value))
          stores.push_back({value, base});
      }
      if (!here.empty() || !stores.empty() || !sums.empty()) {
        SmallVector<Value> totals =
            k.chunkLoop(columns, carried, [&](Chunk chunk, ValueRange inner) {
              chunkValues.clear();
              SmallVector<Value> next;
              for (auto [reduction, sum] : llvm::zip_equal(here, inner))
                next.push_back(accumulate(*reduction, sum, chunk));
              for (auto &[value, base] : sums) {
                Value at = k.addI(k.mulI(block, k.index(columns)), chunk.column);
                Value old = k.loadChunk(base, at, chunk.mask);
                k.storeChunk(k.add(old, columnTerm(value.getDefiningOp(), chunk)), base, at,
                             chunk.mask);
              }
              for (auto &[value, base] : stores)
                k.storeChunk(chunkOf(value, chunk), base, at(chunk), chunk.mask);
              return next;
            });
        for (auto [reduction, total] : llvm::zip_equal(here, totals))
          finish(*reduction, k.fold(total, reduction->maximum));
        // What was stored is read again in later phases, not computed again.
        for (auto &[value, base] : stores)
          stored[value] = base;
      }
    }
    for (auto &[value, base] : outputs)
      if (!isColumnSum(value.getDefiningOp()) && !isRow(value))
        k.store(numbers.lookup(value), base, row);
  }

  /// Has the value a whole row for each row (or is it one number a row)?
  bool isRow(Value value) {
    ArrayRef<int64_t> shape = tensorOf(value).getShape();
    Operation *op = value.getDefiningOp();
    if (isa<lm::NormOp, lm::CrossEntropyOp>(op))
      return isa<lm::NormOp>(op) && value == op->getResult(0);
    return !shape.empty();
  }

  Value at(Chunk chunk) { return k.addI(k.mulI(row, k.index(columns)), chunk.column); }

  /// The operands of an op that have one number a row.
  static SmallVector<Value> numberOperands(Operation *op) {
    return llvm::TypeSwitch<Operation *, SmallVector<Value>>(op)
        .Case<lm::NormDataGradOp, lm::NormGainGradOp>(
            [](auto o) { return SmallVector<Value>{o.getMean(), o.getRstd()}; })
        .Case([](lm::CrossEntropyOp o) { return SmallVector<Value>{o.getWeights()}; })
        .Case(
            [](lm::CrossEntropyGradOp o) { return SmallVector<Value>{o.getLse(), o.getWeights()}; })
        .Default([](Operation *) { return SmallVector<Value>(); });
  }

  /// The row's number of a value that has one a row.
  Value numberOf(Value value) { return numbers.lookup(value); }
  Value integerOf(Value value) {
    Value narrow = k.load(memory.lookup(value), row, k.b.getI32Type());
    return arith::ExtUIOp::create(k.b, k.b.getI64Type(), narrow);
  }
  /// A parameter's chunk: the same for all rows.
  Value shared(Value value, Chunk chunk) {
    return k.loadChunk(memory.lookup(value), chunk.column, chunk.mask);
  }

  Value chunkOf(Value value, Chunk chunk) {
    if (auto found = chunkValues.find(value); found != chunkValues.end())
      return found->second;
    Value result;
    if (auto base = stored.find(value); base != stored.end())
      result = k.loadChunk(base->second, at(chunk), chunk.mask);
    else if (Value address = memory.lookup(value))
      result = k.loadChunk(address, at(chunk), chunk.mask);
    else
      result = compute(value.getDefiningOp(), chunk);
    chunkValues[value] = result;
    return result;
  }

  Value splatNumber(Value value) { return k.splat(numberOf(value)); }

  Value compute(Operation *op, Chunk chunk) {
    return llvm::TypeSwitch<Operation *, Value>(op)
        .Case([&](lm::AddOp o) {
          return k.add(chunkOf(o.getLhs(), chunk), chunkOf(o.getRhs(), chunk));
        })
        .Case([&](lm::ActivationOp o) {
          return activation(o.getKind(), chunkOf(o.getInput(), chunk));
        })
        .Case([&](lm::ActivationGradOp o) {
          return k.mul(chunkOf(o.getAdjoint(), chunk),
                       slope(o.getKind(), chunkOf(o.getInput(), chunk)));
        })
        .Case([&](lm::DropoutOp o) { return dropout(o, chunk); })
        .Case([&](lm::EmbeddingOp o) { return embedding(o, chunk); })
        .Case([&](lm::TakePositionOp o) {
          int64_t time = tensorOf(o.getInput()).getShape()[1];
          Value from = k.addI(k.mulI(row, k.index(time)), integerOf(o.getPositions()));
          return k.loadChunk(memory.lookup(o.getInput()),
                             k.addI(k.mulI(from, k.index(columns)), chunk.column), chunk.mask);
        })
        .Case([&](lm::NormOp o) {
          Value n = normalised(chunkOf(o.getInput(), chunk), o.getMean(), o.getRstd());
          Value y = k.mul(n, shared(o.getGain(), chunk));
          return o.getBias() ? k.add(y, shared(o.getBias(), chunk)) : y;
        })
        .Case([&](lm::NormDataGradOp o) {
          Value n = normalised(chunkOf(o.getInput(), chunk), o.getMean(), o.getRstd());
          Value d = k.mul(chunkOf(o.getAdjoint(), chunk), shared(o.getGain(), chunk));
          if (o.getKind() == lm::NormKind::LayerNorm)
            d = k.sub(d, k.splat(means[{op, 0}]));
          d = k.sub(d, k.mul(n, k.splat(means[{op, 1}])));
          return k.mul(d, splatNumber(o.getRstd()));
        })
        .Case([&](lm::CrossEntropyGradOp o) {
          Value p = exponential(k.sub(chunkOf(o.getLogits(), chunk), splatNumber(o.getLse())));
          Value target = arith::SubIOp::create(k.b, integerOf(o.getTargets()), chunk.column);
          Value narrow = arith::TruncIOp::create(k.b, k.b.getI32Type(), target);
          SmallVector<int32_t> counted(lanes);
          std::iota(counted.begin(), counted.end(), 0);
          Value iota = arith::ConstantOp::create(
              k.b, DenseElementsAttr::get(cast<ShapedType>(k.intVectorType()),
                                          ArrayRef<int32_t>(counted)));
          Value hit = arith::CmpIOp::create(k.b, arith::CmpIPredicate::eq, iota, k.splat(narrow));
          Value q = arith::SelectOp::create(k.b, hit, k.sub(p, k.splat(1.0)), p);
          // A row of weight 0 counts nothing, whatever its logits are.
          Value counts = arith::CmpFOp::create(k.b, arith::CmpFPredicate::UNE,
                                               numberOf(o.getWeights()), k.real(0));
          return arith::SelectOp::create(k.b, k.splat(counts),
                                         k.mul(splatNumber(o.getWeights()), q), k.zeroVector())
              .getResult();
        });
  }

  Value normalised(Value x, Value mean, Value rstd) {
    return k.mul(k.sub(x, splatNumber(mean)), splatNumber(rstd));
  }

  Value exponential(Value x) { return math::ExpOp::create(k.b, x); }

  /// GELU's tanh argument: sqrt(2/pi) (x + 0.044715 x^3).
  Value geluInner(Value x) {
    Value cube = k.mul(k.mul(x, x), x);
    return k.mul(k.splat(std::sqrt(2.0 / M_PI)), k.add(x, k.mul(k.splat(0.044715), cube)));
  }
  Value logistic(Value x) {
    Value negative = arith::NegFOp::create(k.b, x);
    return k.div(k.splat(1.0), k.add(k.splat(1.0), exponential(negative)));
  }

  Value activation(lm::Activation kind, Value x) {
    switch (kind) {
    case lm::Activation::GeluTanh: {
      Value t = math::TanhOp::create(k.b, geluInner(x));
      return k.mul(k.mul(k.splat(0.5), x), k.add(k.splat(1.0), t));
    }
    case lm::Activation::Gelu: {
      Value e = math::ErfOp::create(k.b, k.mul(x, k.splat(std::sqrt(0.5))));
      return k.mul(k.mul(k.splat(0.5), x), k.add(k.splat(1.0), e));
    }
    case lm::Activation::Relu:
      return arith::MaximumFOp::create(k.b, x, k.zeroVector());
    case lm::Activation::Silu:
      return k.mul(x, logistic(x));
    }
    llvm_unreachable("all activations are above");
  }

  /// The derivative of an activation.
  Value slope(lm::Activation kind, Value x) {
    switch (kind) {
    case lm::Activation::GeluTanh: {
      Value t = math::TanhOp::create(k.b, geluInner(x));
      Value half = k.mul(k.splat(0.5), k.add(k.splat(1.0), t));
      Value inner = k.mul(k.splat(std::sqrt(2.0 / M_PI)),
                          k.add(k.splat(1.0), k.mul(k.splat(3 * 0.044715), k.mul(x, x))));
      Value rest = k.mul(k.mul(k.mul(k.splat(0.5), x), k.sub(k.splat(1.0), k.mul(t, t))), inner);
      return k.add(half, rest);
    }
    case lm::Activation::Gelu: {
      Value e = math::ErfOp::create(k.b, k.mul(x, k.splat(std::sqrt(0.5))));
      Value half = k.mul(k.splat(0.5), k.add(k.splat(1.0), e));
      Value bell = exponential(k.mul(k.splat(-0.5), k.mul(x, x)));
      return k.add(half, k.mul(k.mul(x, bell), k.splat(1.0 / std::sqrt(2.0 * M_PI))));
    }
    case lm::Activation::Relu: {
      Value positive = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OGT, x, k.zeroVector());
      return arith::SelectOp::create(k.b, positive, k.splat(1.0), k.zeroVector());
    }
    case lm::Activation::Silu: {
      Value s = logistic(x);
      return k.mul(s, k.add(k.splat(1.0), k.mul(x, k.sub(k.splat(1.0), s))));
    }
    }
    llvm_unreachable("all activations are above");
  }

  Value dropout(lm::DropoutOp op, Chunk chunk) {
    RankedTensorType type = tensorOf(op.getResult());
    Value example = k.index(0), first;
    if (op.getTable()) {
      first = at(chunk);
    } else {
      int64_t rowsPerExample = type.getNumElements() / columns / type.getShape()[0];
      Value local = k.divI(row, k.index(rowsPerExample));
      Value narrow = k.load(examples, local, k.b.getI32Type());
      example = arith::ExtUIOp::create(k.b, k.b.getI64Type(), narrow);
      first = k.addI(k.mulI(k.remI(row, k.index(rowsPerExample)), k.index(columns)), chunk.column);
    }
    Value site = k.addI(siteBase, k.index(op.getSite()));
    Value keep = k.keepMask(random, site, example, first, op.getRate());
    Value scaled = k.mul(chunkOf(op.getInput(), chunk), k.splat(1.0 / (1.0 - op.getRate())));
    return arith::SelectOp::create(k.b, keep, scaled, k.zeroVector());
  }

  Value embedding(lm::EmbeddingOp op, Chunk chunk) {
    Value from = k.addI(k.mulI(integerOf(op.getTokens()), k.index(columns)), chunk.column);
    Value x = k.loadChunk(memory.lookup(op.getTable()), from, chunk.mask);
    if (!op.getPositions())
      return x;
    int64_t time = tensorOf(op.getTokens()).getShape()[1];
    Value position = k.addI(k.remI(row, k.index(time)), k.index(op.getOffset()));
    Value p = k.addI(k.mulI(position, k.index(columns)), chunk.column);
    return k.add(x, k.loadChunk(memory.lookup(op.getPositions()), p, chunk.mask));
  }

  //===--- reductions --------------------------------------------------------===//

  /// Adds a chunk to a reduction's lanes; lanes outside the mask leave them as they are.
  Value accumulate(const Reduction &reduction, Value sum, Chunk chunk) {
    Value term = reductionTerm(reduction, chunk);
    Value next = reduction.maximum ? arith::MaximumFOp::create(k.b, sum, term).getResult()
                                   : k.add(sum, term);
    return chunk.mask ? arith::SelectOp::create(k.b, chunk.mask, next, sum).getResult() : next;
  }

  Value reductionTerm(const Reduction &reduction, Chunk chunk) {
    return llvm::TypeSwitch<Operation *, Value>(reduction.op)
        .Case([&](lm::NormOp o) {
          Value x = chunkOf(o.getInput(), chunk);
          bool layerNorm = o.getKind() == lm::NormKind::LayerNorm;
          if (reduction.number == 0)
            return layerNorm ? x : k.zeroVector();
          Value d = k.sub(x, splatNumber(o.getMean()));
          return k.mul(d, d);
        })
        .Case([&](lm::NormDataGradOp o) {
          Value d = k.mul(chunkOf(o.getAdjoint(), chunk), shared(o.getGain(), chunk));
          if (reduction.number == 0)
            return d;
          return k.mul(d, normalised(chunkOf(o.getInput(), chunk), o.getMean(), o.getRstd()));
        })
        .Case([&](lm::CrossEntropyOp o) {
          Value x = chunkOf(o.getLogits(), chunk);
          if (reduction.number == 0)
            return x;
          return exponential(k.sub(x, k.splat(means[{reduction.op, 0}])));
        });
  }

  void finish(const Reduction &reduction, Value total) {
    Value inverse = k.real(1.0 / static_cast<double>(columns));
    llvm::TypeSwitch<Operation *>(reduction.op)
        .Case([&](lm::NormOp o) {
          Value mean = k.mul(total, inverse);
          if (reduction.number == 0) {
            numbers[o.getMean()] = mean;
            return;
          }
          Value root = math::SqrtOp::create(k.b, k.add(mean, k.real(o.getEpsilon())));
          numbers[o.getRstd()] = k.div(k.real(1.0), root);
        })
        .Case([&](lm::NormDataGradOp) {
          means[{reduction.op, reduction.number}] = k.mul(total, inverse);
        })
        .Case([&](lm::CrossEntropyOp o) {
          means[{reduction.op, reduction.number}] = total;
          if (reduction.number == 0)
            return;
          Value lse = k.add(means[{reduction.op, 0}], math::LogOp::create(k.b, total).getResult());
          numbers[o.getLse()] = lse;
          Value target = k.addI(k.mulI(row, k.index(columns)), integerOf(o.getTargets()));
          Value hit = k.load(memory.lookup(o.getLogits()), target, k.b.getF32Type());
          Value weight = numberOf(o.getWeights());
          Value loss = k.mul(weight, k.sub(lse, hit));
          // A row of weight 0 counts nothing, whatever its logits are.
          Value counts = arith::CmpFOp::create(k.b, arith::CmpFPredicate::UNE, weight, k.real(0));
          numbers[o.getLosses()] = arith::SelectOp::create(k.b, counts, loss, k.real(0));
        });
  }

  /// What a row adds to a sum over rows.
  Value columnTerm(Operation *op, Chunk chunk) {
    if (auto bias = dyn_cast<lm::BiasGradOp>(op))
      return chunkOf(bias.getAdjoint(), chunk);
    auto gain = cast<lm::NormGainGradOp>(op);
    return k.mul(chunkOf(gain.getAdjoint(), chunk),
                 normalised(chunkOf(gain.getInput(), chunk), gain.getMean(), gain.getRstd()));
  }

  KernelBuilder k;
  dist::KernelGroupOp group;
  Block &body;
  int64_t columns = 0;
  unsigned lastPhase = 0;
  Value row, random, examples, siteBase;
  SmallVector<Reduction> reductions;
  SmallVector<std::pair<Value, Value>> outputs; // value, address
  DenseMap<Operation *, unsigned> ready;
  DenseMap<Value, Value> memory;      // group inputs -> address
  DenseMap<Value, Value> stored;      // results of the row already in memory -> address
  DenseMap<Value, Value> numbers;     // one number a row
  DenseMap<Value, Value> chunkValues; // of the chunk being emitted
  DenseMap<std::pair<Operation *, unsigned>, Value> means;
};

} // namespace

void buildRowKernel(ModuleOp kernels, StringRef name, dist::KernelGroupOp group) {
  RowKernel(kernels, name, group).build();
}

} // namespace ftlm::codegen
