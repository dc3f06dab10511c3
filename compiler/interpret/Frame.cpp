// SPDX-License-Identifier: Apache-2.0
// Parameters and layers. Programs and layer classes are run by the interpreter itself.
#include "compiler/interpret/Interpreter.h"
#include "dialects/lm/Lm.h"

using namespace mlir;

namespace ftlm::interpret {
namespace {

LogicalResult use(Operation *op, ArrayRef<const Tensor *>, MutableArrayRef<Tensor> results,
                  const Context &context) {
  std::string name =
      lm::memberName(cast<lm::UseOp>(op).getParam(), context.layerOf(op).value_or(0));
  const Tensor *value = context.interpreter.findParameter(name);
  if (!value)
    return op->emitOpError() << "reads the parameter '" << name << "', which has no value";
  results[0] = *value;
  return success();
}

LogicalResult layerCall(Operation *op, ArrayRef<const Tensor *> operands,
                        MutableArrayRef<Tensor> results, const Context &context) {
  auto callOp = cast<lm::LayerCallOp>(op);
  SmallVector<Tensor> arguments;
  for (const Tensor *operand : operands)
    arguments.push_back(*operand);
  auto returned =
      context.interpreter.call(callOp.getCallee(), std::move(arguments), callOp.getLayer());
  if (failed(returned))
    return failure();
  std::move(returned->begin(), returned->end(), results.begin());
  return success();
}

} // namespace

void addFrameMeanings(MeaningTable &table) {
  table[lm::UseOp::getOperationName()] = use;
  table[lm::LayerCallOp::getOperationName()] = layerCall;
}

} // namespace ftlm::interpret
