// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/SpecialKernels.h"

#include "compiler/codegen/KernelBuilder.h"
#include "dialects/lm/Lm.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ftlm::codegen {

/// Columns of a unit that owns a strip of columns.
static constexpr int64_t strip = 64;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

bool isSpecialOp(Operation *op) {
  return isa<lm::EmbeddingGradOp, lm::PositionGradOp, lm::SumOp>(op);
}

/// Runs `body` for each strip of columns [from, to) of the kernel's units.
static void stripLoop(KernelBuilder &k, int64_t columns,
                      function_ref<void(Value from, Value to)> body) {
  k.loop(k.begin, k.end, 1, {}, [&](Value unit, ValueRange) -> SmallVector<Value> {
    Value from = k.mulI(unit, k.index(strip));
    body(from, k.minI(k.addI(from, k.index(strip)), k.index(columns)));
    return {};
  });
}

/// Each unit owns a strip of columns of the table: it clears the strip, then adds the rows in
/// order.
static LaunchShape embeddingGrad(KernelBuilder &k, lm::EmbeddingGradOp op) {
  int64_t rows = shapeOf(op.getResult())[0], columns = shapeOf(op.getResult())[1];
  int64_t tokens = shapeOf(op.getTokens())[0] * shapeOf(op.getTokens())[1];
  Value ids = k.argument(0), adjoint = k.argument(1), table = k.argument(2);
  stripLoop(k, columns, [&](Value from, Value to) {
    k.loop(k.index(0), k.index(rows), 1, {}, [&](Value row, ValueRange) -> SmallVector<Value> {
      k.rangeLoop(from, to, {}, [&](Chunk c, ValueRange) -> SmallVector<Value> {
        k.storeChunk(k.zeroVector(), table, k.addI(k.mulI(row, k.index(columns)), c.column),
                     c.mask);
        return {};
      });
      return {};
    });
    k.loop(k.index(0), k.index(tokens), 1, {}, [&](Value n, ValueRange) -> SmallVector<Value> {
      Value id = arith::ExtUIOp::create(k.b, k.b.getI64Type(), k.load(ids, n, k.b.getI32Type()));
      k.rangeLoop(from, to, {}, [&](Chunk c, ValueRange) -> SmallVector<Value> {
        Value at = k.addI(k.mulI(id, k.index(columns)), c.column);
        Value term = k.loadChunk(adjoint, k.addI(k.mulI(n, k.index(columns)), c.column), c.mask);
        k.storeChunk(k.add(k.loadChunk(table, at, c.mask), term), table, at, c.mask);
        return {};
      });
      return {};
    });
  });
  return {(columns + strip - 1) / strip, 1};
}

/// Each unit is a row of the result.
static LaunchShape positionGrad(KernelBuilder &k, lm::PositionGradOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getAdjoint());
  int64_t batch = shape[0], time = shape[1], columns = shape[2], rows = shapeOf(op.getResult())[0];
  Value adjoint = k.argument(0), result = k.argument(1);
  k.loop(k.begin, k.end, 1, {}, [&](Value row, ValueRange) -> SmallVector<Value> {
    Value t = arith::SubIOp::create(k.b, row, k.index(op.getOffset()));
    // Compared without sign: rows before the offset are far above `time`.
    Value inside = arith::CmpIOp::create(k.b, arith::CmpIPredicate::ult, t, k.index(time));
    Value count = arith::SelectOp::create(k.b, inside, k.index(batch), k.index(0));
    k.chunkLoop(columns, {}, [&](Chunk c, ValueRange) -> SmallVector<Value> {
      Value sum = k.loop(
          k.index(0), count, 1, ValueRange(k.zeroVector()), [&](Value n, ValueRange carried) {
            Value from = k.mulI(k.addI(k.mulI(n, k.index(time)), t), k.index(columns));
            Value term = k.loadChunk(adjoint, k.addI(from, c.column), c.mask);
            return SmallVector<Value>{k.add(carried[0], term)};
          })[0];
      k.storeChunk(sum, result, k.addI(k.mulI(row, k.index(columns)), c.column), c.mask);
      return {};
    });
    return {};
  });
  return {rows, 16};
}

static LaunchShape sumAll(KernelBuilder &k, lm::SumOp op) {
  int64_t elements = cast<RankedTensorType>(op.getInput().getType()).getNumElements();
  Value input = k.argument(0), result = k.argument(1);
  Value total = k.chunkLoop(elements, ValueRange(k.zeroVector()), [&](Chunk c, ValueRange carried) {
    // Lanes outside the mask are loaded as 0.
    return SmallVector<Value>{k.add(carried[0], k.loadChunk(input, c.column, c.mask))};
  })[0];
  k.store(k.fold(total), result, k.index(0));
  return {1, 1};
}

LaunchShape buildSpecialKernel(ModuleOp kernels, StringRef name, Operation *op) {
  KernelBuilder k(kernels, name);
  return llvm::TypeSwitch<Operation *, LaunchShape>(op)
      .Case([&](lm::EmbeddingGradOp o) { return embeddingGrad(k, o); })
      .Case([&](lm::PositionGradOp o) { return positionGrad(k, o); })
      .Case([&](lm::SumOp o) { return sumAll(k, o); });
}

LaunchShape buildColumnSum(ModuleOp kernels, StringRef name, int64_t blocks, int64_t columns) {
  KernelBuilder k(kernels, name);
  Value partial = k.argument(0), result = k.argument(1);
  stripLoop(k, columns, [&](Value from, Value to) {
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
