// SPDX-License-Identifier: Apache-2.0
// Parameters and layers. Programs and layer classes are run by the interpreter itself.
#include "compiler/interpret/Interpreter.h"
#include "dialects/lm/Lm.h"

using namespace mlir;

namespace ftlm::interpret {
namespace {

/// The global name of what an op reads or writes.
std::string nameOf(Operation *op, StringRef name, const Context &context) {
  return lm::memberName(name, layerOf(op, context).value_or(0));
}

LogicalResult assign(Operation *op, ArrayRef<const Tensor *> operands, MutableArrayRef<Tensor>,
                     const Context &context) {
  return context.interpreter.setParameter(nameOf(op, cast<lm::AssignOp>(op).getTarget(), context),
                                          *operands[0]);
}

LogicalResult use(Operation *op, ArrayRef<const Tensor *>, MutableArrayRef<Tensor> results,
                  const Context &context) {
  std::string name = nameOf(op, cast<lm::UseOp>(op).getParam(), context);
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

std::optional<int64_t> layerOf(Operation *op, const Context &context) {
  return context.layer ? context.layer : lm::layerOf(op);
}

void addFrameMeanings(MeaningTable &table) {
  table[lm::UseOp::getOperationName()] = use;
  table[lm::AssignOp::getOperationName()] = assign;
  table[lm::LayerCallOp::getOperationName()] = layerCall;
}

} // namespace ftlm::interpret
