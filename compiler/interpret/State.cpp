// SPDX-License-Identifier: Apache-2.0
// What a step does: micro-batches and their sums, the norm of the gradients, updates.
#include "compiler/interpret/Interpreter.h"
#include "dialects/lm/Lm.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ftlm::interpret {
namespace {

/// Piece number `index` of `count` along dimension 0, without that dimension.
Tensor slice(const Tensor &whole, int64_t index, RankedTensorType type) {
  Tensor part = Tensor::zeros(type);
  auto take = [&](auto &from, auto &to) {
    auto begin = from.begin() + static_cast<std::ptrdiff_t>(to.size()) * index;
    std::copy_n(begin, to.size(), to.begin());
  };
  take(whole.floats, part.floats);
  take(whole.integers, part.integers);
  return part;
}

LogicalResult microBatches(Operation *op, ArrayRef<const Tensor *> operands,
                           MutableArrayRef<Tensor> results, const Context &context) {
  auto loop = cast<lm::MicroBatchesOp>(op);
  Block &body = loop.getBody().front();
  // The map of values moves when the body adds to it.
  SmallVector<Tensor> whole;
  for (const Tensor *operand : operands)
    whole.push_back(*operand);
  for (int64_t g = 0; g < loop.getCount(); ++g) {
    SmallVector<Tensor> arguments;
    for (auto [tensor, argument] : llvm::zip_equal(whole, body.getArguments()))
      arguments.push_back(slice(tensor, g, cast<RankedTensorType>(argument.getType())));
    auto yielded = context.interpreter.runBlock(body, std::move(arguments), context);
    if (failed(yielded))
      return failure();
    for (auto [i, value] : llvm::enumerate(*yielded)) {
      bool collected = static_cast<int64_t>(i) < loop.getCollected();
      int64_t from = collected ? g * value.size() : 0;
      for (int64_t e = 0; e < value.size(); ++e)
        results[i][from + e] += value[e];
    }
  }
  return success();
}

LogicalResult gradNorm(Operation *, ArrayRef<const Tensor *> operands,
                       MutableArrayRef<Tensor> results, const Context &) {
  double squares = 0;
  for (const Tensor *gradient : operands)
    for (double value : gradient->floats)
      squares += value * value;
  results[0][0] = std::sqrt(squares);
  return success();
}

/// The formulas of lm.update.
LogicalResult update(Operation *op, ArrayRef<const Tensor *> operands,
                     MutableArrayRef<Tensor> results, const Context &) {
  auto updateOp = cast<lm::UpdateOp>(op);
  size_t state = updateOp.getState().size();
  const Tensor &gradient = *operands[state], &hyper = *operands[state + 2];
  double norm = (*operands[state + 1])[0], lr = hyper[0], beta1 = hyper[1], beta2 = hyper[2],
         eps = hyper[3], decay = updateOp.getDecay() ? hyper[4] : 0, clip = hyper[5];
  double scale = clip > 0 ? std::min(1.0, clip / norm) : 1;
  for (int64_t i = 0; i < gradient.size(); ++i) {
    double p = (*operands[0])[i], g = gradient[i] * scale;
    if (updateOp.getRule() == lm::Optimizer::Sgd) {
      results[0][i] = p - lr * (g + decay * p);
      continue;
    }
    double m = beta1 * (*operands[1])[i] + (1 - beta1) * g;
    double v = beta2 * (*operands[2])[i] + (1 - beta2) * g * g;
    if (updateOp.getRule() == lm::Optimizer::AdamW)
      p = p * (1 - lr * decay) - lr * (m / hyper[6]) / (std::sqrt(v / hyper[7]) + eps);
    else
      p -= lr * std::sqrt(hyper[7]) / hyper[6] * (m / (std::sqrt(v) + eps) + decay * p);
    results[0][i] = p;
    results[1][i] = m;
    results[2][i] = v;
  }
  return success();
}

} // namespace

void addStateMeanings(MeaningTable &table) {
  table[lm::MicroBatchesOp::getOperationName()] = microBatches;
  table[lm::GradNormOp::getOperationName()] = gradNorm;
  table[lm::UpdateOp::getOperationName()] = update;
}

} // namespace ftlm::interpret
