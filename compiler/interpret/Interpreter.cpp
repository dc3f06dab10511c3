// SPDX-License-Identifier: Apache-2.0
#include "compiler/interpret/Interpreter.h"

#include "dialects/lm/Lm.h"

using namespace mlir;

namespace ftlm::interpret {

MeaningTable allMeanings() {
  MeaningTable table;
  addActivationMeanings(table);
  addAttentionMeanings(table);
  addDropoutMeanings(table);
  addElementwiseMeanings(table);
  addEmbeddingMeanings(table);
  addFrameMeanings(table);
  addLinearMeanings(table);
  addLossMeanings(table);
  addNormMeanings(table);
  addStateMeanings(table);
  return table;
}

LogicalResult checkIndices(Operation *op, StringRef what, const Tensor &indices, int64_t limit) {
  for (auto [i, index] : llvm::enumerate(indices.integers))
    if (index < 0 || index >= limit)
      return op->emitOpError() << "reads " << what << ' ' << index << " at element " << i
                               << "; expected 0 to " << limit - 1;
  return success();
}

Interpreter::Interpreter(ModuleOp module)
    : module(module), symbols(module), meanings(allMeanings()) {
  for (auto param : module.getOps<lm::ParamOp>())
    for (int64_t layer = 0; layer < param.getLayers().value_or(1); ++layer)
      types[lm::memberName(param.getSymName(), layer)] = param.getTensorType();
  // Moments are 0 before the first step.
  for (auto state : module.getOps<lm::StateOp>())
    if (auto param = symbols.lookup<lm::ParamOp>(state.getParam()))
      for (int64_t layer = 0; layer < param.getLayers().value_or(1); ++layer) {
        std::string name = lm::memberName(state.getSymName(), layer);
        types[name] = param.getTensorType();
        parameters[name] = Tensor::zeros(param.getTensorType());
      }
}

LogicalResult Interpreter::setParameter(StringRef name, Tensor value) {
  auto type = types.find(name);
  if (type == types.end())
    return module.emitError() << "has no parameter '" << name << "' to set";
  if (!value.fits(type->second))
    return module.emitError() << "parameter '" << name << "' is a " << type->second
                              << "; the value for it has another shape or kind of element";
  roundToType(value, type->second);
  parameters[name] = std::move(value);
  return success();
}

const Tensor *Interpreter::findParameter(StringRef name) const {
  auto found = parameters.find(name);
  return found == parameters.end() ? nullptr : &found->second;
}

void Interpreter::setRandomParameters(uint64_t seed) {
  for (auto param : module.getOps<lm::ParamOp>()) {
    lm::InitAttr init = param.getInit();
    double center = init.getKind() == lm::InitKind::Constant ? init.getValue() : 0;
    for (int64_t layer = 0; layer < param.getLayers().value_or(1); ++layer) {
      std::string name = lm::memberName(param.getSymName(), layer);
      Tensor value = randomTensor(param.getTensorType(), seed, name, center, 0.25);
      roundToType(value, param.getTensorType());
      parameters[name] = std::move(value);
    }
  }
}

/// The names of a function's arguments.
static ArrayAttr namesOf(FunctionOpInterface function) {
  return function->getAttrOfType<ArrayAttr>("argument_names");
}

FailureOr<SmallVector<Tensor>> Interpreter::run(StringRef name,
                                                const llvm::StringMap<Tensor> &inputs) {
  auto program = symbols.lookup<FunctionOpInterface>(name);
  if (!program)
    return module.emitError() << "has no lm.program @" << name << " to interpret";
  SmallVector<Tensor> arguments;
  for (auto [nameAttr, type] : llvm::zip_equal(namesOf(program), program.getArgumentTypes())) {
    StringRef argument = cast<StringAttr>(nameAttr).getValue();
    auto found = inputs.find(argument);
    if (found == inputs.end())
      return program->emitOpError()
             << "has the argument '" << argument << "', for which there is no input";
    if (!found->second.fits(cast<RankedTensorType>(type)))
      return program->emitOpError() << "argument '" << argument << "' is a " << type
                                    << "; the input for it has another shape or kind of element";
    arguments.push_back(found->second);
    roundToType(arguments.back(), cast<RankedTensorType>(type));
  }
  if (inputs.size() != arguments.size())
    for (const auto &input : inputs)
      if (!llvm::is_contained(namesOf(program).getAsValueRange<StringAttr>(), input.first()))
        return program->emitOpError()
               << "has no argument '" << input.first() << "', for which there is an input";
  return call(name, std::move(arguments), std::nullopt);
}

FailureOr<llvm::StringMap<Tensor>> Interpreter::randomInputs(StringRef name, uint64_t seed) {
  auto program = symbols.lookup<FunctionOpInterface>(name);
  if (!program)
    return module.emitError() << "has no lm.program @" << name << " to interpret";
  llvm::StringMap<Tensor> inputs;
  for (auto [nameAttr, argument] : llvm::zip_equal(namesOf(program), program.getArguments())) {
    StringRef input = cast<StringAttr>(nameAttr).getValue();
    inputs[input] = randomTensor(cast<RankedTensorType>(argument.getType()), seed, input,
                                 /*center=*/0, /*spread=*/1, indexLimit(argument));
  }
  return inputs;
}

FailureOr<SmallVector<Tensor>> Interpreter::call(StringRef symbol, SmallVector<Tensor> arguments,
                                                 std::optional<int64_t> layer) {
  auto function = symbols.lookup<FunctionOpInterface>(symbol);
  llvm::DenseMap<Value, Tensor> values;
  return runBlock(function.getFunctionBody().front(), std::move(arguments),
                  Context{*this, layer, values});
}

FailureOr<SmallVector<Tensor>> Interpreter::runBlock(Block &block, SmallVector<Tensor> arguments,
                                                     const Context &context) {
  for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
    context.values[argument] = std::move(value);
  for (Operation &op : block.without_terminator())
    if (failed(runOp(op, context)))
      return failure();
  SmallVector<Tensor> results;
  for (Value operand : block.getTerminator()->getOperands())
    results.push_back(context.values.at(operand));
  return results;
}

LogicalResult Interpreter::runOp(Operation &op, const Context &context) {
  auto meaning = meanings.find(op.getName().getStringRef());
  if (meaning == meanings.end())
    return op.emitOpError("cannot be interpreted: it has no meaning in compiler/interpret");
  SmallVector<const Tensor *> operands;
  for (Value operand : op.getOperands())
    operands.push_back(&context.values.find(operand)->second);
  SmallVector<Tensor> results;
  for (Type type : op.getResultTypes())
    results.push_back(Tensor::zeros(cast<RankedTensorType>(type)));
  if (failed(meaning->second(&op, operands, results, context)))
    return failure();
  // The map moves its values when it grows, so results enter it when the operands are done with.
  for (auto [result, value] : llvm::zip_equal(op.getResults(), results)) {
    roundToType(value, cast<RankedTensorType>(result.getType()));
    context.values[result] = std::move(value);
  }
  return success();
}

} // namespace ftlm::interpret
