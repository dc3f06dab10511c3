// SPDX-License-Identifier: Apache-2.0
#include "compiler/differentiate/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_LMPROGRAMS
#include "compiler/differentiate/Passes.h.inc"

namespace {

/// Takes the dropout out of a function's body.
void removeDropout(FunctionOpInterface function) {
  function.walk([](Operation *op) {
    if (auto dropout = dyn_cast<lm::DropoutOp>(op)) {
      dropout.replaceAllUsesWith(dropout.getInput());
      dropout.erase();
    } else if (auto attention = dyn_cast<lm::AttentionOp>(op)) {
      attention.removeDropoutAttr();
      attention.removeSiteAttr();
    }
  });
}

struct LmProgramsPass : impl::LmProgramsBase<LmProgramsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    auto loss = symbols.lookup<lm::ProgramOp>("loss");
    if (!loss) {
      module.emitError("has no lm.program @loss to make @evaluate from");
      return signalPassFailure();
    }
    OpBuilder b(loss);
    b.setInsertionPointAfter(loss);
    auto evaluate = cast<lm::ProgramOp>(b.clone(*loss));
    evaluate.setSymName("evaluate");
    symbols.insert(evaluate);
    removeDropout(evaluate);
    evaluate.walk([&](lm::LayerCallOp call) {
      std::string name = (call.getCallee() + ".evaluate").str();
      if (!symbols.lookup(name)) {
        auto original = symbols.lookup<lm::LayerClassOp>(call.getCallee());
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointAfter(original);
        auto copy = cast<lm::LayerClassOp>(b.clone(*original));
        copy.setSymName(name);
        symbols.insert(copy);
        removeDropout(copy);
      }
      call.setCallee(name);
    });
    auto generate = symbols.lookup<lm::ProgramOp>("next_logits");
    if (!generate)
      return;
    removeDropout(generate);
    generate.walk([&](lm::LayerCallOp call) {
      removeDropout(symbols.lookup<lm::LayerClassOp>(call.getCallee()));
    });
    if (failed(symbols.rename(generate, "generate")))
      signalPassFailure();
  }
};

} // namespace
} // namespace ftlm
