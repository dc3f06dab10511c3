// SPDX-License-Identifier: Apache-2.0
// What a step does: micro-batches, the norm of the gradients, updates and assignments.
#include "compiler/interpret/Interpreter.h"
#include "dialects/lm/Lm.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ftlm::interpret {
namespace {

LogicalResult assign(Operation *op, ArrayRef<const Tensor *> operands, MutableArrayRef<Tensor>,
                     const Context &context) {
  StringRef target = cast<lm::AssignOp>(op).getTarget();
  context.interpreter.assign(lm::memberName(target, context.layerOf(op).value_or(0)), *operands[0]);
  return success();
}

void addTo(Tensor &sum, const Tensor &value) {
  for (int64_t i = 0; i < sum.size(); ++i)
    sum[i] += value[i];
}

/// Sums in a binary tree over the numbers of the values, which come in order.
class TreeSum {
public:
  void add(Tensor value) {
    int64_t count = 1;
    for (; !open.empty() && open.back().count == count; count *= 2) {
      addTo(value, open.back().sum);
      open.pop_back();
    }
    open.push_back({std::move(value), count});
  }
  Tensor finish() {
    Tensor total = std::move(open.back().sum);
    for (open.pop_back(); !open.empty(); open.pop_back())
      addTo(total, open.back().sum);
    return total;
  }

private:
  struct Open {
    Tensor sum;
    int64_t count; // of values in it
  };
  SmallVector<Open> open; // counts are powers of 2 and fall
};

/// Part number `index` of a tensor whose dimension 0 counts the parts of type `type`.
Tensor sliceOf(const Tensor &whole, int64_t index, RankedTensorType type) {
  Tensor part = Tensor::zeros(type);
  std::copy_n(whole.floats.begin() + index * static_cast<int64_t>(part.floats.size()),
              part.floats.size(), part.floats.begin());
  std::copy_n(whole.integers.begin() + index * static_cast<int64_t>(part.integers.size()),
              part.integers.size(), part.integers.begin());
  return part;
}

LogicalResult microBatches(Operation *op, ArrayRef<const Tensor *> operands,
                           MutableArrayRef<Tensor> results, const Context &context) {
  auto loop = cast<lm::MicroBatchesOp>(op);
  Block &body = loop.getBody().front();
  auto collected = static_cast<size_t>(loop.getCollected());
  // The body enters values, which moves those of the operands.
  SmallVector<Tensor> slices;
  for (const Tensor *operand : operands)
    slices.push_back(*operand);
  std::vector<TreeSum> sums(results.size());
  for (int64_t batch = 0; batch < loop.getCount(); ++batch) {
    SmallVector<Tensor> arguments;
    for (auto [slice, argument] : llvm::zip_equal(slices, body.getArguments()))
      arguments.push_back(sliceOf(slice, batch, cast<RankedTensorType>(argument.getType())));
    auto yielded = context.interpreter.runBlock(body, std::move(arguments), context);
    if (failed(yielded))
      return failure();
    for (auto [i, value] : llvm::enumerate(*yielded)) {
      if (i >= collected)
        sums[i].add(std::move(value));
      else
        std::copy(value.floats.begin(), value.floats.end(),
                  results[i].floats.begin() + batch * value.size());
    }
  }
  for (size_t i = collected; i < results.size(); ++i)
    results[i] = sums[i].finish();
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

/// The next values of parameter, first and second moment from those before and the gradient.
LogicalResult update(Operation *op, ArrayRef<const Tensor *> operands,
                     MutableArrayRef<Tensor> results, const Context &) {
  auto updateOp = cast<lm::UpdateOp>(op);
  size_t states = results.size();
  const Tensor &gradient = *operands[states], &norm = *operands[states + 1];
  const Tensor &hyper = *operands[states + 2];
  double lr = hyper[0], beta1 = hyper[1], beta2 = hyper[2], eps = hyper[3];
  double decay = updateOp.getDecay() ? hyper[4] : 0, clip = hyper[5];
  double correction1 = hyper[6], correction2 = hyper[7];
  double scale = clip > 0 && norm[0] > clip ? clip / norm[0] : 1;
  for (int64_t i = 0; i < gradient.size(); ++i) {
    double p = (*operands[0])[i], g = scale * gradient[i];
    if (updateOp.getRule() == lm::Optimizer::Sgd) {
      results[0][i] = p - lr * (g + decay * p);
      continue;
    }
    double m = beta1 * (*operands[1])[i] + (1 - beta1) * g;
    double v = beta2 * (*operands[2])[i] + (1 - beta2) * g * g;
    results[1][i] = m;
    results[2][i] = v;
    if (updateOp.getRule() == lm::Optimizer::AdamW)
      results[0][i] =
          p * (1 - lr * decay) - lr * (m / correction1) / (std::sqrt(v / correction2) + eps);
    else
      results[0][i] =
          p - lr * std::sqrt(correction2) / correction1 * (m / (std::sqrt(v) + eps) + decay * p);
  }
  return success();
}

} // namespace

void addStateMeanings(MeaningTable &table) {
  table[lm::AssignOp::getOperationName()] = assign;
  table[lm::MicroBatchesOp::getOperationName()] = microBatches;
  table[lm::GradNormOp::getOperationName()] = gradNorm;
  table[lm::UpdateOp::getOperationName()] = update;
}

} // namespace ftlm::interpret
