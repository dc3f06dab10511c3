// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmKernels.h"
#include "dialects/lm/LmVerify.h"

#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

/// GELU's tanh argument: sqrt(2/pi) (x + 0.044715 x^3).
static Value geluInner(KernelBuilder &k, Value x) {
  Value cube = k.mul(k.mul(x, x), x);
  return k.mul(k.splat(std::sqrt(2.0 / M_PI)), k.add(x, k.mul(k.splat(0.044715), cube)));
}

static Value logistic(KernelBuilder &k, Value x) {
  Value negative = arith::NegFOp::create(k.b, x);
  return k.div(k.splat(1.0), k.add(k.splat(1.0), k.exp(negative)));
}

Value ftlm::lm::emitActivation(KernelBuilder &k, Activation kind, Value x) {
  switch (kind) {
  case Activation::GeluTanh: {
    Value t = math::TanhOp::create(k.b, geluInner(k, x));
    return k.mul(k.mul(k.splat(0.5), x), k.add(k.splat(1.0), t));
  }
  case Activation::Gelu: {
    Value e = math::ErfOp::create(k.b, k.mul(x, k.splat(std::sqrt(0.5))));
    return k.mul(k.mul(k.splat(0.5), x), k.add(k.splat(1.0), e));
  }
  case Activation::Relu:
    return arith::MaximumFOp::create(k.b, x, k.zeroVector());
  case Activation::Silu:
    return k.mul(x, logistic(k, x));
  }
  llvm_unreachable("all activations are above");
}

Value ftlm::lm::emitActivationSlope(KernelBuilder &k, Activation kind, Value x) {
  switch (kind) {
  case Activation::GeluTanh: {
    Value t = math::TanhOp::create(k.b, geluInner(k, x));
    Value half = k.mul(k.splat(0.5), k.add(k.splat(1.0), t));
    Value inner = k.mul(k.splat(std::sqrt(2.0 / M_PI)),
                        k.add(k.splat(1.0), k.mul(k.splat(3 * 0.044715), k.mul(x, x))));
    Value rest = k.mul(k.mul(k.mul(k.splat(0.5), x), k.sub(k.splat(1.0), k.mul(t, t))), inner);
    return k.add(half, rest);
  }
  case Activation::Gelu: {
    Value e = math::ErfOp::create(k.b, k.mul(x, k.splat(std::sqrt(0.5))));
    Value half = k.mul(k.splat(0.5), k.add(k.splat(1.0), e));
    Value bell = k.exp(k.mul(k.splat(-0.5), k.mul(x, x)));
    return k.add(half, k.mul(k.mul(x, bell), k.splat(1.0 / std::sqrt(2.0 * M_PI))));
  }
  case Activation::Relu: {
    Value positive = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OGT, x, k.zeroVector());
    return arith::SelectOp::create(k.b, positive, k.splat(1.0), k.zeroVector());
  }
  case Activation::Silu: {
    Value s = logistic(k, x);
    return k.mul(s, k.add(k.splat(1.0), k.mul(x, k.sub(k.splat(1.0), s))));
  }
  }
  llvm_unreachable("all activations are above");
}

SmallVector<Value> ActivationOp::buildGradient(OpBuilder &b, ValueRange adjoints,
                                               ArrayRef<bool> wanted) {
  return {ActivationGradOp::create(b, getLoc(), getInput().getType(), getKind(), adjoints[0],
                                   getInput())};
}

Access ActivationOp::operandAccess(unsigned) {
  return Access::Row;
}
Value ActivationOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  return emitActivation(row.k, getKind(), row.chunk(getInput(), chunk));
}

Access ActivationGradOp::operandAccess(unsigned) {
  return Access::Row;
}
Value ActivationGradOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  return row.k.mul(row.chunk(getAdjoint(), chunk),
                   emitActivationSlope(row.k, getKind(), row.chunk(getInput(), chunk)));
}
