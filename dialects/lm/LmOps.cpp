// SPDX-License-Identifier: Apache-2.0
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace ftlm::lm;

//===----------------------------------------------------------------------===//
// Pieces of syntax
//===----------------------------------------------------------------------===//

/// A float attribute as a bare number of type f64.
static ParseResult parseBareF64(OpAsmParser &parser, FloatAttr &attr) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  attr = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

static void printBareF64(OpAsmPrinter &printer, Operation *, FloatAttr attr) {
  printer << attr.getValue();
}

/// `(%name: type, ...) -> type { body }`; the names of the arguments become `argument_names`.
static ParseResult parseFunction(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(), result.attributes))
    return failure();
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseArgumentList(arguments, AsmParser::Delimiter::Paren, /*allowType=*/true))
    return failure();
  SmallVector<Type> resultTypes;
  if (succeeded(parser.parseOptionalArrow())) {
    if (succeeded(parser.parseOptionalLParen())) {
      if (parser.parseTypeList(resultTypes) || parser.parseRParen())
        return failure();
    } else if (parser.parseType(resultTypes.emplace_back())) {
      return failure();
    }
  }
  SmallVector<Type> argumentTypes;
  SmallVector<Attribute> names;
  for (const OpAsmParser::Argument &argument : arguments) {
    argumentTypes.push_back(argument.type);
    names.push_back(parser.getBuilder().getStringAttr(argument.ssaName.name.drop_front()));
  }
  result.addAttribute("function_type", TypeAttr::get(parser.getBuilder().getFunctionType(
                                           argumentTypes, resultTypes)));
  result.addAttribute("argument_names", parser.getBuilder().getArrayAttr(names));
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parser.parseRegion(*result.addRegion(), arguments);
}

static void printFunction(FunctionOpInterface op, OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(op.getName());
  printer << '(';
  llvm::interleaveComma(op.getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ')';
  ArrayRef<Type> results = op.getResultTypes();
  if (results.size() == 1)
    printer << " -> " << results.front();
  else if (!results.empty())
    printer << " -> (" << results << ')';
  printer.printOptionalAttrDictWithKeyword(
      op->getAttrs(), {"sym_name", "function_type", "argument_names", "arg_attrs", "res_attrs"});
  printer << ' ';
  printer.printRegion(op.getFunctionBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/true);
}

static void nameArguments(Region &region, ArrayAttr names, OpAsmSetValueNameFn setName) {
  for (auto [argument, name] : llvm::zip(region.getArguments(), names))
    setName(argument, cast<StringAttr>(name).getValue());
}

ParseResult LayerClassOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction(parser, result);
}
void LayerClassOp::print(OpAsmPrinter &printer) {
  printFunction(*this, printer);
}
void LayerClassOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameArguments(region, getArgumentNames(), setName);
}

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction(parser, result);
}
void ProgramOp::print(OpAsmPrinter &printer) {
  printFunction(*this, printer);
}
void ProgramOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameArguments(region, getArgumentNames(), setName);
}

//===----------------------------------------------------------------------===//
// The frame
//===----------------------------------------------------------------------===//

LogicalResult ParamOp::verify() {
  bool isFamily = getSymName().contains('*');
  if (isFamily != getLayers().has_value())
    return emitOpError() << (isFamily ? "has a '*' in its name but no layers(n)"
                                      : "has layers(n) but no '*' in its name");
  if (getLayers() && *getLayers() < 1)
    return emitOpError() << "has " << *getLayers() << " layers; expected 1 or more";
  if (getTensorType().getRank() < 1)
    return emitOpError() << "has rank 0; expected rank 1 or more";
  if (getView() && (*getView() < 1 || *getView() > getTensorType().getShape().front()))
    return emitOpError() << "has a view of " << *getView() << " rows of "
                         << getTensorType().getShape().front();
  if (ArrayAttr stored = getStored().value_or(nullptr)) {
    int64_t row = 0;
    for (StoredAttr piece : stored.getAsRange<StoredAttr>()) {
      if (piece.getRow() != row || piece.getRows() < 1)
        return emitOpError() << "has a stored piece '" << piece.getName() << "' at row "
                             << piece.getRow() << "; expected row " << row;
      if (piece.getName().contains('*') != isFamily)
        return emitOpError() << "has a stored piece '" << piece.getName() << "' "
                             << (isFamily ? "without a '*'" : "with a '*'");
      row += piece.getRows();
    }
    if (row != getTensorType().getShape().front())
      return emitOpError() << "has stored pieces of " << row << " rows in all; expected "
                           << getTensorType().getShape().front();
  }
  return success();
}

/// Checks that `param` names a parameter of type `type`, a family exactly when inside a layer
/// class.
static LogicalResult verifyParamUse(Operation *op, FlatSymbolRefAttr param, Type type,
                                    SymbolTableCollection &symbols) {
  auto decl = symbols.lookupNearestSymbolFrom<ParamOp>(op, param);
  if (!decl)
    return op->emitOpError() << "refers to " << param << ", which is no lm.param";
  if (type && decl.getType() != type)
    return op->emitOpError() << "has type " << type << ", but " << param << " is declared "
                             << decl.getType();
  bool inLayer = op->getParentOfType<LayerClassOp>() != nullptr;
  if (inLayer && !decl.getLayers())
    return op->emitOpError() << "in a layer class refers to " << param
                             << ", which is no family of layers";
  if (!inLayer && decl.getLayers() && !isa<UpdateOp>(op))
    return op->emitOpError() << "outside a layer class refers to the family " << param;
  return success();
}

LogicalResult UseOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyParamUse(*this, getParamAttr(), getType(), symbols);
}

void UseOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  StringRef name = getParam();
  if (size_t star = name.rfind("*."); star != StringRef::npos)
    name = name.drop_front(star + 2);
  setName(getResult(), name);
}

LogicalResult AccumulateGradOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyParamUse(*this, getParamAttr(), getGradient().getType(), symbols);
}

LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyParamUse(*this, getParamAttr(), Type(), symbols);
}

LogicalResult LayerCallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<LayerClassOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "calls " << getCalleeAttr() << ", which is no lm.layer_class";
  FunctionType type = callee.getFunctionType();
  if (TypeRange(type.getInputs()) != getInputs().getTypes() ||
      TypeRange(type.getResults()) != getResultTypes())
    return emitOpError() << "has type "
                         << FunctionType::get(getContext(), getInputs().getTypes(),
                                              getResultTypes())
                         << ", but " << getCalleeAttr() << " is " << type;
  // A class of a real model has a few dozen uses: looking at all of them for each call is cheap.
  for (UseOp use : callee.getOps<UseOp>())
    if (auto param = symbols.lookupNearestSymbolFrom<ParamOp>(use, use.getParamAttr()))
      if (param.getLayers() && (getLayer() < 0 || getLayer() >= *param.getLayers()))
        return emitOpError() << "runs layer " << getLayer() << ", but " << use.getParamAttr()
                             << " has layers 0 to " << *param.getLayers() - 1;
  return success();
}

LogicalResult ReturnOp::verify() {
  auto function = cast<FunctionOpInterface>((*this)->getParentOp());
  if (TypeRange(function.getResultTypes()) != getOperandTypes())
    return emitOpError() << "returns (" << getOperandTypes() << "), but " << function.getName()
                         << " declares (" << function.getResultTypes() << ')';
  return success();
}

//===----------------------------------------------------------------------===//
// Forward ops
//===----------------------------------------------------------------------===//

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

LogicalResult LinearOp::verify() {
  ArrayRef<int64_t> input = shapeOf(getInput()), weight = shapeOf(getWeight());
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (weight.size() != 2 || input.empty() || result.empty())
    return emitOpError() << "expects a weight of rank 2 and tensors of rank 1 or more";
  int64_t in = getTransposed() ? weight[1] : weight[0];
  int64_t out = getTransposed() ? weight[0] : weight[1];
  if (input.back() != in)
    return emitOpError() << "has an input of width " << input.back() << ", but a weight for " << in;
  if (getTransposed() ? result.back() > out : result.back() != out)
    return emitOpError() << "has a result of width " << result.back() << ", but a weight for "
                         << out;
  if (failed(checkShape(*this, "result rows", result.drop_back(), input.drop_back())))
    return failure();
  if (getBias())
    return checkShape(*this, "a bias", shapeOf(getBias()), {result.back()});
  return success();
}

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

/// The rate and site of an op with random numbers.
LogicalResult ftlm::lm::checkRate(Operation *op, double rate, int64_t site) {
  if (!(rate >= 0 && rate < 1))
    return op->emitOpError() << "has a dropout rate of " << rate << "; expected 0 <= rate < 1";
  if (site < 0 || site > 15)
    return op->emitOpError() << "has random site " << site << "; expected 0 to 15";
  return success();
}

LogicalResult ftlm::lm::checkAttention(Operation *op, Value qkvValue, Value out, Value lse,
                                       int64_t heads, int64_t kvHeads,
                                       std::optional<double> dropout, std::optional<int64_t> site) {
  ArrayRef<int64_t> qkv = shapeOf(qkvValue);
  if (qkv.size() != 3 || heads < 1 || kvHeads < 1 || heads % kvHeads != 0)
    return op->emitOpError()
           << "expects qkv of rank 3 and heads that are a multiple of kv_heads; found " << heads
           << " and " << kvHeads;
  int64_t parts = heads + 2 * kvHeads;
  if (qkv[2] % parts != 0)
    return op->emitOpError() << "cannot cut a width of " << qkv[2] << " into " << heads
                             << " queries and 2 x " << kvHeads << " keys and values";
  if (dropout.has_value() != site.has_value())
    return op->emitOpError() << "has "
                             << (dropout ? "a dropout without a site" : "a site without a dropout");
  if (dropout && failed(checkRate(op, *dropout, *site)))
    return failure();
  if (failed(checkShape(op, "an output", shapeOf(out), {qkv[0], qkv[1], heads * (qkv[2] / parts)})))
    return failure();
  return checkShape(op, "an lse", shapeOf(lse), {qkv[0], heads, qkv[1]});
}

LogicalResult AttentionOp::verify() {
  return checkAttention(*this, getQkv(), getResult(), getLse(), getHeads(), getKvHeads(),
                        getDropout(), getSite());
}

LogicalResult DropoutOp::verify() {
  if (failed(checkNotScalar(*this, "an input", getInput())))
    return failure();
  return checkRate(*this, getRate(), getSite());
}

LogicalResult TakePositionOp::verify() {
  ArrayRef<int64_t> input = shapeOf(getInput());
  if (input.size() != 3)
    return emitOpError() << "expects an input of rank 3";
  if (failed(checkShape(*this, "positions", shapeOf(getPositions()), {input[0]})))
    return failure();
  return checkShape(*this, "a result", shapeOf(getResult()), {input[0], input[2]});
}

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

#define GET_OP_CLASSES
#include "dialects/lm/LmOps.cpp.inc"
