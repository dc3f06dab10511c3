// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/Passes.h"
#include "dialects/lm/Lm.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_DISTINLINELAYERS
#include "compiler/schedule/Passes.h.inc"

namespace {

struct DistInlineLayersPass : impl::DistInlineLayersBase<DistInlineLayersPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    SmallVector<lm::LayerCallOp> all;
    for (auto program : module.getOps<lm::ProgramOp>())
      program.walk([&](lm::LayerCallOp call) { all.push_back(call); });
    for (lm::LayerCallOp call : all)
      expand(call, symbols.lookup<lm::LayerClassOp>(call.getCallee()));
    calls += static_cast<unsigned>(all.size());
    for (auto layer : llvm::make_early_inc_range(module.getOps<lm::LayerClassOp>()))
      layer.erase();
  }

  void expand(lm::LayerCallOp call, lm::LayerClassOp callee) {
    OpBuilder b(call);
    IRMapping mapping;
    Block &body = callee.getBody().front();
    mapping.map(body.getArguments(), call.getInputs());
    for (Operation &op : body.without_terminator())
      b.clone(op, mapping)->setAttr(lm::layerAttrName, call.getLayerAttr());
    for (auto [result, value] :
         llvm::zip_equal(call.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(mapping.lookup(value));
    call.erase();
  }
};

} // namespace
} // namespace ftlm
