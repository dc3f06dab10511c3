// SPDX-License-Identifier: Apache-2.0
// Dropout by counted random numbers.
#include "compiler/interpret/Interpreter.h"
#include "dialects/lm/Lm.h"

using namespace mlir;

namespace ftlm::interpret {
namespace {

LogicalResult dropout(Operation *op, ArrayRef<const Tensor *> operands,
                      MutableArrayRef<Tensor> results, const Context &context) {
  auto dropoutOp = cast<lm::DropoutOp>(op);
  double rate = dropoutOp.getRateAttr().getValueAsDouble();
  int64_t site = lm::globalSite(dropoutOp.getSite(), layerOf(op, context));
  const Tensor &x = *operands[0];
  Draw draw{operands[1]->integer(0), operands[1]->integer(1)};
  const Tensor *examples = operands.size() > 2 ? operands[2] : nullptr;
  int64_t perExample = examples ? x.size() / x.dim(0) : x.size();
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t example = examples ? examples->integer(i / perExample) : 0;
    results[0][i] = x[i] * dropoutFactor(draw, rate, site, example, i % perExample);
  }
  return success();
}

} // namespace

void addDropoutMeanings(MeaningTable &table) {
  table[lm::DropoutOp::getOperationName()] = dropout;
}

} // namespace ftlm::interpret
