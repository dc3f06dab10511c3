// SPDX-License-Identifier: Apache-2.0
// Parameters, layer classes, programs: what a module is made of.
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

/// The kinds of inputs and outputs that a runtime knows.
static constexpr StringRef inputNames[] = {"tokens",    "targets", "weights", "examples",
                                           "positions", "random",  "hyper"};
static constexpr StringRef outputNames[] = {"loss", "grad_norm", "logits"};
static constexpr StringRef gradientPrefix = "gradient/";

/// `(%name: type, ...)`; the names of the arguments become `argument_names`.
static ParseResult parseArguments(OpAsmParser &parser, OperationState &result,
                                  SmallVectorImpl<OpAsmParser::Argument> &arguments,
                                  SmallVectorImpl<Type> &types) {
  StringAttr name;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(), result.attributes) ||
      parser.parseArgumentList(arguments, AsmParser::Delimiter::Paren, /*allowType=*/true))
    return failure();
  SmallVector<Attribute> names;
  for (const OpAsmParser::Argument &argument : arguments) {
    types.push_back(argument.type);
    names.push_back(parser.getBuilder().getStringAttr(argument.ssaName.name.drop_front()));
  }
  result.addAttribute("argument_names", parser.getBuilder().getArrayAttr(names));
  return success();
}

/// The rest of a function: its attributes and its body.
static ParseResult parseBody(OpAsmParser &parser, OperationState &result,
                             ArrayRef<OpAsmParser::Argument> arguments, ArrayRef<Type> inputs,
                             ArrayRef<Type> results) {
  result.addAttribute("function_type",
                      TypeAttr::get(parser.getBuilder().getFunctionType(inputs, results)));
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parser.parseRegion(*result.addRegion(), arguments);
}

static void printArguments(FunctionOpInterface op, OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(op.getName());
  printer << '(';
  llvm::interleaveComma(op.getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ')';
}

static void printBody(FunctionOpInterface op, OpAsmPrinter &printer) {
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(),
                                           {"sym_name", "function_type", "argument_names",
                                            "result_names", "purpose", "arg_attrs", "res_attrs"});
  printer << ' ';
  printer.printRegion(op.getFunctionBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/true);
}

static void nameArguments(Region &region, ArrayAttr names, OpAsmSetValueNameFn setName) {
  for (auto [argument, name] : llvm::zip(region.getArguments(), names))
    setName(argument, cast<StringAttr>(name).getValue());
}

void LayerClassOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameArguments(region, getArgumentNames(), setName);
}

void ProgramOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameArguments(region, getArgumentNames(), setName);
}

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

void UseOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  StringRef name = getParam();
  if (size_t star = name.rfind("*."); star != StringRef::npos)
    name = name.drop_front(star + 2);
  setName(getResult(), name);
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

ParseResult LayerClassOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> inputs, results;
  if (parseArguments(parser, result, arguments, inputs))
    return failure();
  if (succeeded(parser.parseOptionalArrow())) {
    if (succeeded(parser.parseOptionalLParen())) {
      if (parser.parseTypeList(results) || parser.parseRParen())
        return failure();
    } else if (parser.parseType(results.emplace_back())) {
      return failure();
    }
  }
  return parseBody(parser, result, arguments, inputs, results);
}

void LayerClassOp::print(OpAsmPrinter &printer) {
  printArguments(*this, printer);
  ArrayRef<Type> results = getResultTypes();
  if (results.size() == 1)
    printer << " -> " << results.front();
  else if (!results.empty())
    printer << " -> (" << results << ')';
  printBody(*this, printer);
}

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef purposeName;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&purposeName))
    return failure();
  std::optional<Purpose> purpose = symbolizePurpose(purposeName);
  if (!purpose)
    return parser.emitError(loc)
           << "expected objective, gradients, train, evaluate or generate, found " << purposeName;
  result.addAttribute("purpose", PurposeAttr::get(parser.getContext(), *purpose));
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> inputs, results;
  SmallVector<Attribute> names;
  auto parseResult = [&] {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseColonType(results.emplace_back()))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  if (parseArguments(parser, result, arguments, inputs) || parser.parseArrow() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseResult))
    return failure();
  result.addAttribute("result_names", parser.getBuilder().getArrayAttr(names));
  return parseBody(parser, result, arguments, inputs, results);
}

void ProgramOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyPurpose(getPurpose());
  printArguments(*this, printer);
  printer << " -> (";
  llvm::interleaveComma(
      llvm::zip_equal(getResultNames(), getResultTypes()), printer, [&](auto pair) {
        printer.printKeywordOrString(cast<StringAttr>(std::get<0>(pair)).getValue());
        printer << ": " << std::get<1>(pair);
      });
  printer << ')';
  printBody(*this, printer);
}

LogicalResult ProgramOp::verify() {
  if (getArgumentNames().size() != getNumArguments() ||
      getResultNames().size() != getResultTypes().size())
    return emitOpError("needs a name for each argument and each result");
  llvm::StringSet<> seen;
  for (auto name : getArgumentNames().getAsRange<StringAttr>()) {
    if (!llvm::is_contained(inputNames, name.getValue())) {
      InFlightDiagnostic diag = emitOpError()
                                << "has an input '" << name.getValue() << "'; a runtime fills ";
      llvm::interleaveComma(inputNames, diag);
      return diag;
    }
    if (!seen.insert(name.getValue()).second)
      return emitOpError() << "has the input '" << name.getValue() << "' twice";
  }
  for (auto name : getResultNames().getAsRange<StringAttr>())
    if (!name.getValue().starts_with(gradientPrefix) &&
        !llvm::is_contained(outputNames, name.getValue())) {
      InFlightDiagnostic diag = emitOpError()
                                << "has an output '" << name.getValue() << "'; a runtime reads ";
      llvm::interleaveComma(outputNames, diag);
      return diag << " and " << gradientPrefix << "NAME";
    }
  return success();
}

BlockArgument ProgramOp::getArgumentNamed(StringRef name) {
  for (auto [argument, found] : llvm::zip_equal(getArguments(), getArgumentNames()))
    if (cast<StringAttr>(found).getValue() == name)
      return argument;
  return {};
}

ProgramOp ftlm::lm::programFor(ModuleOp module, Purpose purpose) {
  for (auto program : module.getOps<ProgramOp>())
    if (program.getPurpose() == purpose)
      return program;
  return {};
}

std::vector<Member> ftlm::lm::membersOf(ModuleOp module) {
  std::vector<ParamOp> params(module.getOps<ParamOp>().begin(), module.getOps<ParamOp>().end());
  int64_t layers = 0;
  for (ParamOp param : params)
    layers = std::max(layers, param.getLayers().value_or(0));
  auto first = llvm::find_if(params, [](ParamOp p) { return p.getLayers().has_value(); });
  std::vector<Member> members;
  for (auto it = params.begin(); it != first; ++it)
    members.push_back({*it, std::nullopt, it->getSymName().str()});
  for (int64_t layer = 0; layer < layers; ++layer)
    for (ParamOp param : params)
      if (param.getLayers() && layer < *param.getLayers())
        members.push_back({param, layer, memberName(param.getSymName(), layer)});
  for (auto it = first; it != params.end(); ++it)
    if (!it->getLayers())
      members.push_back({*it, std::nullopt, it->getSymName().str()});
  return members;
}

std::optional<int64_t> ftlm::lm::layerOf(Operation *op) {
  if (auto layer = op->getAttrOfType<IntegerAttr>(layerAttrName))
    return layer.getInt();
  return std::nullopt;
}

LogicalResult ftlm::lm::verifyStateUse(Operation *op, FlatSymbolRefAttr name, Type type,
                                       SymbolTableCollection &symbols) {
  Operation *symbol = symbols.lookupNearestSymbolFrom(op, name);
  auto decl = dyn_cast_or_null<ParamOp>(symbol);
  if (auto state = dyn_cast_or_null<StateOp>(symbol))
    decl = symbols.lookupNearestSymbolFrom<ParamOp>(op, state.getParamAttr());
  if (!decl)
    return op->emitOpError() << "refers to " << name << ", which is no lm.param and no lm.state";
  if (decl.getType() != type)
    return op->emitOpError() << "has type " << type << ", but " << name << " is declared "
                             << decl.getType();
  bool inLayer = op->getParentOfType<LayerClassOp>() || layerOf(op);
  if (inLayer && !decl.getLayers())
    return op->emitOpError() << "in a layer class refers to " << name
                             << ", which is no family of layers";
  if (!inLayer && decl.getLayers())
    return op->emitOpError() << "outside a layer class refers to the family " << name;
  return success();
}

LogicalResult UseOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyStateUse(*this, getParamAttr(), getType(), symbols);
}
