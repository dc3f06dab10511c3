// SPDX-License-Identifier: Apache-2.0
// Sums: of two tensors, of the elements of one.
#include "compiler/interpret/Meanings.h"
#include "dialects/lm/Lm.h"

using namespace mlir;

namespace ftlm::interpret {
namespace {

LogicalResult add(Operation *, ArrayRef<const Tensor *> operands, MutableArrayRef<Tensor> results,
                  const Context &) {
  for (int64_t i = 0; i < results[0].size(); ++i)
    results[0][i] = (*operands[0])[i] + (*operands[1])[i];
  return success();
}

LogicalResult sum(Operation *, ArrayRef<const Tensor *> operands, MutableArrayRef<Tensor> results,
                  const Context &) {
  for (double value : operands[0]->floats)
    results[0][0] += value;
  return success();
}

} // namespace

void addElementwiseMeanings(MeaningTable &table) {
  table[lm::AddOp::getOperationName()] = add;
  table[lm::SumOp::getOperationName()] = sum;
}

} // namespace ftlm::interpret
