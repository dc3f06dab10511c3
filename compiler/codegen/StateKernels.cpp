// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/StateKernels.h"

#include "compiler/codegen/KernelBuilder.h"

using namespace mlir;

namespace ftlm::codegen {

/// Builds `name` once.
static std::string once(ModuleOp kernels, const std::string &name,
                        function_ref<void(KernelBuilder &)> build) {
  if (!kernels.lookupSymbol(name)) {
    KernelBuilder k(kernels, name);
    build(k);
  }
  return name;
}

std::string addKernel(ModuleOp kernels) {
  return once(kernels, "add", [](KernelBuilder &k) {
    Value lhs = k.argument(0), rhs = k.argument(1), result = k.argument(2);
    k.rangeLoop(k.begin, k.end, {}, [&](Chunk c, ValueRange) -> SmallVector<Value> {
      Value sum = k.add(k.loadChunk(lhs, c.column, c.mask), k.loadChunk(rhs, c.column, c.mask));
      k.storeChunk(sum, result, c.column, c.mask);
      return {};
    });
  });
}

std::string sumSquaresKernel(ModuleOp kernels, int64_t elements) {
  return once(kernels, "sum_squares_" + std::to_string(elements), [&](KernelBuilder &k) {
    Value gradient = k.argument(0), partials = k.argument(1);
    k.loop(k.begin, k.end, 1, {}, [&](Value unit, ValueRange) -> SmallVector<Value> {
      Value from = k.mulI(unit, k.index(normChunk));
      Value to = k.minI(k.addI(from, k.index(normChunk)), k.index(elements));
      Value sum =
          k.rangeLoop(from, to, ValueRange(k.zeroVector()), [&](Chunk c, ValueRange carried) {
            Value g = k.loadChunk(gradient, c.column, c.mask);
            return SmallVector<Value>{k.add(carried[0], k.mul(g, g))};
          })[0];
      k.store(k.fold(sum), partials, unit);
      return {};
    });
  });
}

std::string normKernel(ModuleOp kernels, int64_t partials) {
  return once(kernels, "norm_of_" + std::to_string(partials), [&](KernelBuilder &k) {
    Value from = k.argument(0), norm = k.argument(1);
    Value zero = arith::ConstantOp::create(k.b, k.b.getF64FloatAttr(0));
    Value sum = k.loop(
        k.index(0), k.index(partials), 1, ValueRange(zero), [&](Value i, ValueRange carried) {
          Value part =
              arith::ExtFOp::create(k.b, k.b.getF64Type(), k.load(from, i, k.b.getF32Type()));
          return SmallVector<Value>{k.add(carried[0], part)};
        })[0];
    Value root = math::SqrtOp::create(k.b, sum);
    k.store(arith::TruncFOp::create(k.b, k.b.getF32Type(), root), norm, k.index(0));
  });
}

std::string updateKernel(ModuleOp kernels, lm::Optimizer rule, bool decay) {
  std::string name = stringifyOptimizer(rule).str() + (decay ? "_decay" : "");
  return once(kernels, name, [&](KernelBuilder &k) {
    bool hasMoments = rule != lm::Optimizer::Sgd;
    Value value = k.argument(0), gradient = k.argument(1);
    Value moment1 = hasMoments ? k.argument(2) : Value(),
          moment2 = hasMoments ? k.argument(3) : Value();
    Value hyper = k.argument(hasMoments ? 4 : 2), norm = k.argument(hasMoments ? 5 : 3);
    auto number = [&](int64_t i) { return k.load(hyper, k.index(i), k.b.getF32Type()); };
    Value lr = number(0), beta1 = number(1), beta2 = number(2), eps = number(3),
          decayRate = number(4);
    Value clip = number(5), correction1 = number(6), correction2 = number(7);
    Value one = k.real(1), length = k.load(norm, k.index(0), k.b.getF32Type());
    // min(1, clip / norm) where clip is above 0; a NaN norm stays one, so that it is seen.
    Value clips = arith::AndIOp::create(
        k.b, arith::CmpFOp::create(k.b, arith::CmpFPredicate::OGT, clip, k.real(0)),
        arith::CmpFOp::create(k.b, arith::CmpFPredicate::UGT, length, clip).getResult());
    Value factor =
        k.splat(arith::SelectOp::create(k.b, clips, k.div(clip, length), one).getResult());
    Value rate = k.splat(lr), shrink = k.splat(k.mul(lr, decayRate));
    Value b1 = k.splat(beta1), b2 = k.splat(beta2), e = k.splat(eps), d = k.splat(decayRate);
    Value rest1 = k.splat(k.sub(one, beta1)), rest2 = k.splat(k.sub(one, beta2));
    Value c1 = k.splat(correction1), c2 = k.splat(correction2);
    Value root2 = math::SqrtOp::create(k.b, correction2);
    Value gpt1Rate = k.splat(k.div(k.mul(lr, root2), correction1));

    k.rangeLoop(k.begin, k.end, {}, [&](Chunk c, ValueRange) -> SmallVector<Value> {
      Value p = k.loadChunk(value, c.column, c.mask);
      Value g = k.mul(k.loadChunk(gradient, c.column, c.mask), factor);
      if (rule == lm::Optimizer::Sgd) {
        if (decay)
          g = k.add(g, k.mul(d, p));
        k.storeChunk(k.sub(p, k.mul(rate, g)), value, c.column, c.mask);
        return {};
      }
      Value m = k.add(k.mul(b1, k.loadChunk(moment1, c.column, c.mask)), k.mul(rest1, g));
      Value v = k.add(k.mul(b2, k.loadChunk(moment2, c.column, c.mask)), k.mul(rest2, k.mul(g, g)));
      k.storeChunk(m, moment1, c.column, c.mask);
      k.storeChunk(v, moment2, c.column, c.mask);
      if (rule == lm::Optimizer::AdamW) {
        if (decay)
          p = k.sub(p, k.mul(shrink, p));
        Value root = math::SqrtOp::create(k.b, k.div(v, c2));
        p = k.sub(p, k.mul(rate, k.div(k.div(m, c1), k.add(root, e))));
      } else {
        Value step = k.div(m, k.add(math::SqrtOp::create(k.b, v).getResult(), e));
        if (decay)
          step = k.add(step, k.mul(d, p));
        p = k.sub(p, k.mul(gpt1Rate, step));
      }
      k.storeChunk(p, value, c.column, c.mask);
      return {};
    });
  });
}

} // namespace ftlm::codegen
