// SPDX-License-Identifier: Apache-2.0
// Activations and their derivatives, element by element.
#include "compiler/interpret/Meanings.h"
#include "dialects/lm/Lm.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace ftlm::interpret {
namespace {

constexpr double cubic = 0.044715;
const double geluScale = std::sqrt(2 / std::numbers::pi);

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// The distribution function of the standard normal distribution.
double normalBelow(double x) {
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
}

double activate(lm::Activation kind, double x) {
  switch (kind) {
  case lm::Activation::GeluTanh:
    return 0.5 * x * (1 + std::tanh(geluScale * (x + cubic * x * x * x)));
  case lm::Activation::Gelu:
    return x * normalBelow(x);
  case lm::Activation::Relu:
    return x > 0 ? x : 0;
  case lm::Activation::Silu:
    return x * sigmoid(x);
  }
  llvm_unreachable("an activation without a formula");
}

double derivative(lm::Activation kind, double x) {
  switch (kind) {
  case lm::Activation::GeluTanh: {
    double t = std::tanh(geluScale * (x + cubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * geluScale * (1 + 3 * cubic * x * x);
  }
  case lm::Activation::Gelu:
    return normalBelow(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  case lm::Activation::Relu:
    return x > 0 ? 1 : 0;
  case lm::Activation::Silu:
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
  }
  llvm_unreachable("an activation without a derivative");
}

LogicalResult activation(Operation *op, ArrayRef<const Tensor *> operands,
                         MutableArrayRef<Tensor> results, const Context &) {
  lm::Activation kind = cast<lm::ActivationOp>(op).getKind();
  for (int64_t i = 0; i < results[0].size(); ++i)
    results[0][i] = activate(kind, (*operands[0])[i]);
  return success();
}

LogicalResult activationGrad(Operation *op, ArrayRef<const Tensor *> operands,
                             MutableArrayRef<Tensor> results, const Context &) {
  lm::Activation kind = cast<lm::ActivationGradOp>(op).getKind();
  const Tensor &adjoint = *operands[0], &x = *operands[1];
  for (int64_t i = 0; i < x.size(); ++i)
    results[0][i] = adjoint[i] * derivative(kind, x[i]);
  return success();
}

} // namespace

void addActivationMeanings(MeaningTable &table) {
  table[lm::ActivationOp::getOperationName()] = activation;
  table[lm::ActivationGradOp::getOperationName()] = activationGrad;
}

} // namespace ftlm::interpret
