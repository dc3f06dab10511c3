// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

/// Columns of a unit that owns a strip of columns.
static constexpr int64_t strip = 64;

LogicalResult EmbeddingOp::verify() {
  ArrayRef<int64_t> tokens = shapeOf(getTokens()), table = shapeOf(getTable());
  if (tokens.size() != 2 || table.size() != 2)
    return emitOpError() << "expects tokens of rank 2 and a table of rank 2";
  if (failed(checkShape(*this, "a result", shapeOf(getResult()), {tokens[0], tokens[1], table[1]})))
    return failure();
  if (!getPositions())
    return success();
  ArrayRef<int64_t> positions = shapeOf(getPositions());
  if (positions.size() != 2 || positions[1] != table[1] || getOffset() < 0 ||
      getOffset() + tokens[1] > positions[0])
    return emitOpError() << "needs rows " << getOffset() << " to " << getOffset() + tokens[1]
                         << " of width " << table[1] << " for its positions, found "
                         << getPositions().getType();
  return success();
}

LogicalResult TakePositionOp::verify() {
  ArrayRef<int64_t> input = shapeOf(getInput());
  if (input.size() != 3)
    return emitOpError() << "expects an input of rank 3";
  if (failed(checkShape(*this, "positions", shapeOf(getPositions()), {input[0]})))
    return failure();
  return checkShape(*this, "a result", shapeOf(getResult()), {input[0], input[2]});
}

LogicalResult EmbeddingGradOp::verify() {
  if (failed(checkRank(*this, "tokens", getTokens(), 2)) ||
      failed(checkRank(*this, "an adjoint", getAdjoint(), 3)) ||
      failed(checkRank(*this, "a result", getResult(), 2)))
    return failure();
  ArrayRef<int64_t> tokens = shapeOf(getTokens());
  return checkShape(*this, "an adjoint", shapeOf(getAdjoint()),
                    {tokens[0], tokens[1], shapeOf(getResult())[1]});
}

LogicalResult PositionGradOp::verify() {
  if (failed(checkRank(*this, "an adjoint", getAdjoint(), 3)) ||
      failed(checkRank(*this, "a result", getResult(), 2)))
    return failure();
  ArrayRef<int64_t> adjoint = shapeOf(getAdjoint()), result = shapeOf(getResult());
  int64_t offset = getOffset();
  if (offset < 0 || offset + adjoint[1] > result[0] || adjoint[2] != result[1])
    return emitOpError() << "fills rows " << offset << " to " << offset + adjoint[1] << " of width "
                         << adjoint[2] << ", but its result is " << getResult().getType();
  return success();
}

LogicalResult TakePositionGradOp::verify() {
  if (failed(checkRank(*this, "a result", getResult(), 3)))
    return failure();
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (failed(checkShape(*this, "positions", shapeOf(getPositions()), {result[0]})))
    return failure();
  return checkShape(*this, "an adjoint", shapeOf(getAdjoint()), {result[0], result[2]});
}

SmallVector<Value> EmbeddingOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                              ArrayRef<bool> wanted) {
  SmallVector<Value> result(getNumOperands());
  if (wanted[1])
    result[1] =
        EmbeddingGradOp::create(b, getLoc(), getTable().getType(), getTokens(), adjoints[0]);
  if (getPositions() && wanted[2])
    result[2] =
        PositionGradOp::create(b, getLoc(), getPositions().getType(), adjoints[0], getOffset());
  return result;
}

SmallVector<Value> TakePositionOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                                 ArrayRef<bool> wanted) {
  return {
      TakePositionGradOp::create(b, getLoc(), getInput().getType(), adjoints[0], getPositions()),
      Value()};
}

//===--- over rows ----------------------------------------------------------===//

Access EmbeddingOp::operandAccess(unsigned operand) {
  return operand == 0 ? Access::Integer : Access::Address;
}

Value EmbeddingOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  KernelBuilder &k = row.k;
  Value columns = k.index(row.columns());
  Value from = k.addI(k.mulI(row.integer(getTokens()), columns), chunk.column);
  Value x = k.loadChunk(row.address(getTable()), from, chunk.mask);
  if (!getPositions())
    return x;
  int64_t time = shapeOf(getTokens())[1];
  Value position = k.addI(k.remI(row.row(), k.index(time)), k.index(getOffset()));
  Value at = k.addI(k.mulI(position, columns), chunk.column);
  return k.add(x, k.loadChunk(row.address(getPositions()), at, chunk.mask));
}

Access TakePositionOp::operandAccess(unsigned operand) {
  return operand == 0 ? Access::Address : Access::Integer;
}

Value TakePositionOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  KernelBuilder &k = row.k;
  int64_t time = shapeOf(getInput())[1];
  Value from = k.addI(k.mulI(row.row(), k.index(time)), row.integer(getPositions()));
  return k.loadChunk(row.address(getInput()),
                     k.addI(k.mulI(from, k.index(row.columns())), chunk.column), chunk.mask);
}

Access TakePositionGradOp::operandAccess(unsigned) {
  return Access::Address;
}

Value TakePositionGradOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  KernelBuilder &k = row.k;
  Value time = k.index(shapeOf(getResult())[1]);
  Value example = k.divI(row.row(), time), t = k.remI(row.row(), time);
  Value taken = arith::ExtUIOp::create(
      k.b, k.b.getI64Type(), k.load(row.address(getPositions()), example, k.b.getI32Type()));
  Value hit = arith::CmpIOp::create(k.b, arith::CmpIPredicate::eq, taken, t);
  Value x = k.loadChunk(row.address(getAdjoint()),
                        k.addI(k.mulI(example, k.index(row.columns())), chunk.column), chunk.mask);
  return arith::SelectOp::create(k.b, k.splat(hit), x, k.zeroVector());
}

//===--- kernels of their own -------------------------------------------------===//

LaunchShape EmbeddingGradOp::launchShape() {
  return {(shapeOf(getResult())[1] + strip - 1) / strip, 1};
}

/// Each unit owns a strip of columns of the table: it clears the strip, then adds the rows in
/// order.
LaunchShape EmbeddingGradOp::emitKernel(KernelBuilder &k) {
  int64_t rows = shapeOf(getResult())[0], columns = shapeOf(getResult())[1];
  int64_t tokens = shapeOf(getTokens())[0] * shapeOf(getTokens())[1];
  Value ids = k.argument(0), adjoint = k.argument(1), table = k.argument(2);
  k.stripLoop(strip, columns, [&](Value from, Value to) {
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
  return launchShape();
}

LaunchShape PositionGradOp::launchShape() {
  return {shapeOf(getResult())[0], 16};
}

/// Each unit is a row of the result.
LaunchShape PositionGradOp::emitKernel(KernelBuilder &k) {
  ArrayRef<int64_t> shape = shapeOf(getAdjoint());
  int64_t batch = shape[0], time = shape[1], columns = shape[2];
  Value adjoint = k.argument(0), result = k.argument(1);
  k.loop(k.begin, k.end, 1, {}, [&](Value row, ValueRange) -> SmallVector<Value> {
    Value t = arith::SubIOp::create(k.b, row, k.index(getOffset()));
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
  return launchShape();
}
