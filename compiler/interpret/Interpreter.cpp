// SPDX-License-Identifier: Apache-2.0
#include "compiler/interpret/Interpreter.h"

#include "dialects/lm/Lm.h"

#include <numeric>

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

std::optional<int64_t> Context::layerOf(Operation *op) const {
  std::optional<int64_t> own = lm::layerOf(op);
  return own ? own : layer;
}

/// The names of the arguments of a program or a layer class.
static SmallVector<StringRef> argumentNames(FunctionOpInterface function) {
  return llvm::to_vector(
      function->getAttrOfType<ArrayAttr>("argument_names").getAsValueRange<StringAttr>());
}

Interpreter::Interpreter(ModuleOp module)
    : module(module), symbols(module), meanings(allMeanings()) {
  for (auto param : module.getOps<lm::ParamOp>())
    for (int64_t layer = 0; layer < param.getLayers().value_or(1); ++layer)
      types[lm::memberName(param.getSymName(), layer)] = param.getTensorType();
  for (auto state : module.getOps<lm::StateOp>()) {
    auto param = symbols.lookup<lm::ParamOp>(state.getParam());
    for (int64_t layer = 0; layer < param.getLayers().value_or(1); ++layer)
      parameters[lm::memberName(state.getSymName(), layer)] = Tensor::zeros(param.getTensorType());
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

FailureOr<FunctionOpInterface> Interpreter::find(StringRef name) {
  auto function = symbols.lookup<FunctionOpInterface>(name);
  if (!function || !isa<lm::ProgramOp, lm::LayerClassOp>(function.getOperation()))
    return module.emitError() << "has no lm.program and no lm.layer_class @" << name
                              << " to interpret";
  return function;
}

FailureOr<SmallVector<Tensor>> Interpreter::run(StringRef name,
                                                const llvm::StringMap<Tensor> &inputs) {
  auto function = find(name);
  if (failed(function))
    return failure();
  Operation *op = *function;
  SmallVector<StringRef> names = argumentNames(*function);
  SmallVector<Tensor> arguments;
  for (auto [argument, type] : llvm::zip_equal(names, function->getArgumentTypes())) {
    auto found = inputs.find(argument);
    if (found == inputs.end())
      return op->emitOpError() << "has the argument '" << argument
                               << "', for which there is no input";
    if (!found->second.fits(cast<RankedTensorType>(type)))
      return op->emitOpError() << "argument '" << argument << "' is a " << type
                               << "; the input for it has another shape or kind of element";
    arguments.push_back(found->second);
    roundToType(arguments.back(), cast<RankedTensorType>(type));
  }
  for (const auto &input : inputs)
    if (!llvm::is_contained(names, input.first()))
      return op->emitOpError() << "has no argument '" << input.first()
                               << "', for which there is an input";
  next.clear();
  auto results = call(name, std::move(arguments), std::nullopt);
  if (succeeded(results))
    for (auto &assigned : next)
      parameters[assigned.first()] = std::move(assigned.second);
  return results;
}

/// {lr, beta1, beta2, eps, decay, clip, 1 - beta1, 1 - beta2}: a first step of Adam.
constexpr double firstHyper[] = {0.01, 0.9, 0.95, 1e-8, 0.1, 1, 0.1, 0.05};

FailureOr<llvm::StringMap<Tensor>> Interpreter::randomInputs(StringRef name, uint64_t seed) {
  auto function = find(name);
  if (failed(function))
    return failure();
  llvm::StringMap<Tensor> inputs;
  for (auto [input, argument] :
       llvm::zip_equal(argumentNames(*function), function->getArguments())) {
    auto type = cast<RankedTensorType>(argument.getType());
    Tensor &tensor = inputs[input];
    tensor = randomTensor(type, seed, input, /*center=*/0, /*spread=*/1, indexLimit(argument));
    if (input == "random" && tensor.integers.size() == 2)
      tensor.integers = {static_cast<int64_t>(seed), 0};
    else if (input == "examples")
      std::iota(tensor.integers.begin(), tensor.integers.end(), 0);
    else if (input == "hyper" && tensor.floats.size() == std::size(firstHyper))
      tensor.floats.assign(std::begin(firstHyper), std::end(firstHyper));
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
