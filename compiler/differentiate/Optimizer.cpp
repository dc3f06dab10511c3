// SPDX-License-Identifier: Apache-2.0
#include "compiler/differentiate/Passes.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_LMOPTIMIZER
#include "compiler/differentiate/Passes.h.inc"

namespace {

struct LmOptimizerPass : impl::LmOptimizerBase<LmOptimizerPass> {
  using LmOptimizerBase::LmOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<lm::Optimizer> known = lm::symbolizeOptimizer(rule);
    if (!known) {
      module.emitError() << "unknown update rule '" << rule
                         << "'; expected adamw, adam_gpt1 or sgd";
      return signalPassFailure();
    }
    ImplicitLocOpBuilder b(module.getLoc(), &getContext());
    b.setInsertionPointToEnd(module.getBody());
    Type scalar = RankedTensorType::get({}, b.getF32Type());
    auto program = lm::ProgramOp::create(b, "update", b.getFunctionType({}, {scalar}),
                                         b.getStrArrayAttr({}), nullptr, nullptr);
    b.createBlock(&program.getBody());
    Value norm = lm::GradNormOp::create(b, scalar);
    for (auto param : module.getOps<lm::ParamOp>())
      if (!param.getFrozen())
        lm::UpdateOp::create(b, *known, param.getSymName(), norm, param.getDecay());
    lm::ReturnOp::create(b, norm);
  }
};

} // namespace
} // namespace ftlm
