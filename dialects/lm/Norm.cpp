// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmSyntax.h"
#include "dialects/lm/LmVerify.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

ParseResult NormOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef kindName;
  OpAsmParser::UnresolvedOperand input, gain, bias;
  SMLoc kindLoc = parser.getCurrentLocation();
  if (parser.parseKeyword(&kindName))
    return failure();
  std::optional<NormKind> kind = symbolizeNormKind(kindName);
  if (!kind)
    return parser.emitError(kindLoc) << "expected layer_norm or rms_norm, found " << kindName;
  if (parser.parseOperand(input) || parser.parseKeyword("gain") || parser.parseOperand(gain))
    return failure();
  bool hasBias = succeeded(parser.parseOptionalKeyword("bias"));
  FloatAttr epsilon;
  Type type, statistics;
  if ((hasBias && parser.parseOperand(bias)) || parser.parseKeyword("epsilon") ||
      parser.parseLParen() || parseBareF64(parser, epsilon) || parser.parseRParen() ||
      parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type) ||
      parser.parseArrow() || parser.parseType(statistics))
    return failure();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() < 1)
    return parser.emitError(kindLoc) << "expected a tensor of rank 1 or more, found " << type;
  Type rowType = RankedTensorType::get({tensor.getShape().back()}, tensor.getElementType());
  result.addAttribute("kind", NormKindAttr::get(parser.getContext(), *kind));
  result.addAttribute("epsilon", epsilon);
  result.addTypes({type, statistics, statistics});
  return failure(parser.resolveOperand(input, type, result.operands) ||
                 parser.resolveOperand(gain, rowType, result.operands) ||
                 (hasBias && parser.resolveOperand(bias, rowType, result.operands)));
}

void NormOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyNormKind(getKind()) << ' ' << getInput() << " gain " << getGain();
  if (getBias())
    printer << " bias " << getBias();
  printer << " epsilon(" << getEpsilonAttr().getValue() << ')';
  printer.printOptionalAttrDict((*this)->getAttrs(), {"kind", "epsilon"});
  printer << " : " << getResult().getType() << " -> " << getMean().getType();
}

LogicalResult NormOp::verify() {
  if (failed(checkNotScalar(*this, "an input", getInput())))
    return failure();
  ArrayRef<int64_t> input = shapeOf(getInput());
  if (failed(checkShape(*this, "a result", shapeOf(getResult()), input)) ||
      failed(checkShape(*this, "a gain", shapeOf(getGain()), {input.back()})) ||
      failed(checkShape(*this, "a mean", shapeOf(getMean()), input.drop_back())) ||
      failed(checkShape(*this, "an rstd", shapeOf(getRstd()), input.drop_back())))
    return failure();
  if ((getKind() == NormKind::RmsNorm) && getBias())
    return emitOpError() << "of kind rms_norm has no bias";
  if (getEpsilon() <= 0)
    return emitOpError() << "needs an epsilon above 0";
  return success();
}

LogicalResult NormDataGradOp::verify() {
  if (failed(checkNotScalar(*this, "an input", getInput())) ||
      failed(checkShape(*this, "a gain", shapeOf(getGain()), {shapeOf(getInput()).back()})))
    return failure();
  return checkShape(*this, "a mean", shapeOf(getMean()), rowsOf(getInput()));
}

LogicalResult NormGainGradOp::verify() {
  if (failed(checkNotScalar(*this, "an input", getInput())) ||
      failed(checkShape(*this, "a mean", shapeOf(getMean()), rowsOf(getInput()))))
    return failure();
  return checkShape(*this, "a result", shapeOf(getResult()), {shapeOf(getInput()).back()});
}

SmallVector<Value> NormOp::buildGradient(OpBuilder &b, ValueRange adjoints, ArrayRef<bool> wanted) {
  SmallVector<Value> result(getNumOperands());
  if (wanted[0])
    result[0] = NormDataGradOp::create(b, getLoc(), getInput().getType(), getKind(), adjoints[0],
                                       getInput(), getGain(), getMean(), getRstd());
  if (wanted[1])
    result[1] = NormGainGradOp::create(b, getLoc(), getGain().getType(), adjoints[0], getInput(),
                                       getMean(), getRstd());
  if (getBias() && wanted[2])
    result[2] = BiasGradOp::create(b, getLoc(), getBias().getType(), adjoints[0]);
  return result;
}

//===--- over rows ----------------------------------------------------------===//

/// (x - mean) * rstd.
static Value normalised(RowEmitter &row, Value x, Value mean, Value rstd) {
  return row.k.mul(row.k.sub(x, row.splatNumber(mean)), row.splatNumber(rstd));
}

/// A total over the columns, divided by their number.
static Value meanOf(RowEmitter &row, Operation *op, unsigned reduction) {
  return row.k.mul(row.total(op, reduction), row.k.real(1.0 / static_cast<double>(row.columns())));
}

Access NormOp::operandAccess(unsigned operand) {
  return operand == 0 ? Access::Row : Access::Column;
}
Access NormOp::resultAccess(unsigned result) {
  return result == 0 ? Access::Row : Access::Number;
}
SmallVector<Reduction> NormOp::reductions() {
  return {{false, 0}, {false, 1}};
}
/// The mean, then the mean square around it; an RMS norm's mean is 0.
Value NormOp::reductionTerm(unsigned reduction, RowEmitter &row, Chunk chunk) {
  Value x = row.chunk(getInput(), chunk);
  if (reduction == 0)
    return getKind() == NormKind::LayerNorm ? x : row.k.zeroVector();
  Value d = row.k.sub(x, row.splatNumber(getMean()));
  return row.k.mul(d, d);
}
void NormOp::finishReduction(unsigned reduction, RowEmitter &row) {
  KernelBuilder &k = row.k;
  Value mean = meanOf(row, *this, reduction);
  if (reduction == 0)
    return row.setNumber(getMean(), mean);
  Value root = math::SqrtOp::create(k.b, k.add(mean, k.real(getEpsilonAttr().getValueAsDouble())));
  row.setNumber(getRstd(), k.div(k.real(1.0), root));
}
Value NormOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  Value n = normalised(row, row.chunk(getInput(), chunk), getMean(), getRstd());
  Value y = row.k.mul(n, row.column(getGain(), chunk));
  return getBias() ? row.k.add(y, row.column(getBias(), chunk)) : y;
}

Access NormDataGradOp::operandAccess(unsigned operand) {
  constexpr Access access[] = {Access::Row, Access::Row, Access::Column, Access::Number,
                               Access::Number};
  return access[operand];
}
SmallVector<Reduction> NormDataGradOp::reductions() {
  return {{false, 0}, {false, 0}};
}
Value NormDataGradOp::reductionTerm(unsigned reduction, RowEmitter &row, Chunk chunk) {
  Value d = row.k.mul(row.chunk(getAdjoint(), chunk), row.column(getGain(), chunk));
  if (reduction == 0)
    return d;
  return row.k.mul(d, normalised(row, row.chunk(getInput(), chunk), getMean(), getRstd()));
}
Value NormDataGradOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  KernelBuilder &k = row.k;
  Value n = normalised(row, row.chunk(getInput(), chunk), getMean(), getRstd());
  Value d = k.mul(row.chunk(getAdjoint(), chunk), row.column(getGain(), chunk));
  if (getKind() == NormKind::LayerNorm)
    d = k.sub(d, k.splat(meanOf(row, *this, 0)));
  d = k.sub(d, k.mul(n, k.splat(meanOf(row, *this, 1))));
  return k.mul(d, row.splatNumber(getRstd()));
}

Access NormGainGradOp::operandAccess(unsigned operand) {
  return operand < 2 ? Access::Row : Access::Number;
}
Access NormGainGradOp::resultAccess(unsigned) {
  return Access::Sum;
}
Value NormGainGradOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  return row.k.mul(row.chunk(getAdjoint(), chunk),
                   normalised(row, row.chunk(getInput(), chunk), getMean(), getRstd()));
}
