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
  double rate = dropoutOp.getRate();
  int64_t site = lm::globalSite(dropoutOp.getSite(), context.layerOf(op));
  bool hasExamples = dropoutOp.getExamples() != nullptr;
  Draw draw = drawOf(*operands[1], hasExamples ? operands[2] : nullptr);
  const Tensor &x = *operands[0];
  int64_t perExample = hasExamples ? x.size() / x.dim(0) : x.size();
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t example = hasExamples ? draw.examples[static_cast<size_t>(i / perExample)] : 0;
    results[0][i] = x[i] * dropoutFactor(draw, rate, site, example, i % perExample);
  }
  return success();
}

} // namespace

void addDropoutMeanings(MeaningTable &table) {
  table[lm::DropoutOp::getOperationName()] = dropout;
}

} // namespace ftlm::interpret
