// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

/// `%logits, %a, %b[, ...] : logits type -> row type`, where the rows' operands have the element
/// types of `elements`.
static ParseResult parseRowLoss(OpAsmParser &parser, OperationState &result, unsigned rowOperands,
                                unsigned idOperand) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  Type logits, rows;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(operands, rowOperands + 1) ||
      parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(logits) ||
      parser.parseArrow() || parser.parseType(rows))
    return failure();
  auto rowType = dyn_cast<RankedTensorType>(rows);
  if (!rowType)
    return parser.emitError(loc) << "expected a tensor of rows, found " << rows;
  Type ids = RankedTensorType::get(rowType.getShape(), parser.getBuilder().getI32Type());
  if (parser.resolveOperand(operands[0], logits, result.operands))
    return failure();
  for (unsigned i = 1; i <= rowOperands; ++i)
    if (parser.resolveOperand(operands[i], i == idOperand ? ids : rows, result.operands))
      return failure();
  return success();
}

ParseResult CrossEntropyOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parseRowLoss(parser, result, 2, 1))
    return failure();
  Type rows = result.operands[2].getType();
  result.addTypes({rows, rows});
  return success();
}

void CrossEntropyOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getOperands();
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getLogits().getType() << " -> " << getLosses().getType();
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(checkNotScalar(*this, "logits", getLogits())))
    return failure();
  ArrayRef<int64_t> rows = rowsOf(getLogits());
  for (Value value :
       {Value(getTargets()), Value(getWeights()), Value(getLosses()), Value(getLse())})
    if (failed(checkShape(*this, "targets, weights, losses or lse", shapeOf(value), rows)))
      return failure();
  return success();
}

ParseResult CrossEntropyGradOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parseRowLoss(parser, result, 3, 2))
    return failure();
  result.addTypes(result.operands[0].getType());
  return success();
}

void CrossEntropyGradOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getOperands();
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getLogits().getType() << " -> " << getLse().getType();
}

LogicalResult SumOp::verify() {
  return checkShape(*this, "a result", shapeOf(getResult()), {});
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(checkNotScalar(*this, "logits", getLogits())) ||
      failed(checkShape(*this, "a result", shapeOf(getResult()), shapeOf(getLogits()))))
    return failure();
  for (auto [what, value] : {std::pair<StringRef, Value>{"an lse", getLse()},
                             {"targets", getTargets()},
                             {"weights", getWeights()}})
    if (failed(checkShape(*this, what, shapeOf(value), rowsOf(getLogits()))))
      return failure();
  return success();
}

//===--- the objective --------------------------------------------------------===//

Value CrossEntropyOp::getPrediction() {
  return getLogits();
}
Value CrossEntropyOp::buildSeed(OpBuilder &b) {
  return CrossEntropyGradOp::create(b, getLoc(), getLogits().getType(), getLogits(), getLse(),
                                    getTargets(), getWeights());
}

//===--- over rows ----------------------------------------------------------===//

/// A row of weight 0 counts nothing, whatever its logits are.
static Value isCounted(RowEmitter &row, Value weights) {
  return arith::CmpFOp::create(row.k.b, arith::CmpFPredicate::UNE, row.number(weights),
                               row.k.real(0));
}

Access CrossEntropyOp::operandAccess(unsigned operand) {
  constexpr Access access[] = {Access::Row, Access::Integer, Access::Number};
  return access[operand];
}
Access CrossEntropyOp::resultAccess(unsigned) {
  return Access::Number;
}
/// The largest logit, then the sum of the exponentials below it.
SmallVector<Reduction> CrossEntropyOp::reductions() {
  return {{true, 0}, {false, 1}};
}
Value CrossEntropyOp::reductionTerm(unsigned reduction, RowEmitter &row, Chunk chunk) {
  Value x = row.chunk(getLogits(), chunk);
  return reduction == 0 ? x : row.k.exp(row.k.sub(x, row.k.splat(row.total(*this, 0))));
}
void CrossEntropyOp::finishReduction(unsigned reduction, RowEmitter &row) {
  if (reduction == 0)
    return;
  KernelBuilder &k = row.k;
  Value lse = k.add(row.total(*this, 0), math::LogOp::create(k.b, row.total(*this, 1)).getResult());
  row.setNumber(getLse(), lse);
  Value target = k.addI(k.mulI(row.row(), k.index(row.columns())), row.integer(getTargets()));
  Value hit = k.load(row.address(getLogits()), target, k.b.getF32Type());
  Value loss = k.mul(row.number(getWeights()), k.sub(lse, hit));
  row.setNumber(getLosses(),
                arith::SelectOp::create(k.b, isCounted(row, getWeights()), loss, k.real(0)));
}
Value CrossEntropyOp::emitChunk(unsigned, RowEmitter &, Chunk) {
  return {};
}

Access CrossEntropyGradOp::operandAccess(unsigned operand) {
  constexpr Access access[] = {Access::Row, Access::Number, Access::Integer, Access::Number};
  return access[operand];
}
Value CrossEntropyGradOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  KernelBuilder &k = row.k;
  Value p = k.exp(k.sub(row.chunk(getLogits(), chunk), row.splatNumber(getLse())));
  Value target = arith::SubIOp::create(k.b, row.integer(getTargets()), chunk.column);
  Value narrow = arith::TruncIOp::create(k.b, k.b.getI32Type(), target);
  Value hit =
      arith::CmpIOp::create(k.b, arith::CmpIPredicate::eq, k.laneNumbers(), k.splat(narrow));
  Value q = arith::SelectOp::create(k.b, hit, k.sub(p, k.splat(1.0)), p);
  return arith::SelectOp::create(k.b, k.splat(isCounted(row, getWeights())),
                                 k.mul(row.splatNumber(getWeights()), q), k.zeroVector());
}

//===--- kernels of their own -------------------------------------------------===//

LaunchShape SumOp::launchShape() {
  return {1, 1};
}
LaunchShape SumOp::emitKernel(KernelBuilder &k) {
  int64_t elements = cast<RankedTensorType>(getInput().getType()).getNumElements();
  Value input = k.argument(0), result = k.argument(1);
  Value total = k.chunkLoop(elements, ValueRange(k.zeroVector()), [&](Chunk c, ValueRange carried) {
    // Lanes outside the mask are loaded as 0.
    return SmallVector<Value>{k.add(carried[0], k.loadChunk(input, c.column, c.mask))};
  })[0];
  k.store(k.fold(total), result, k.index(0));
  return launchShape();
}
