// SPDX-License-Identifier: Apache-2.0
#include "compiler/Pipeline.h"

#include "compiler/differentiate/Passes.h"
#include "dialects/dist/Dist.h"
#include "dialects/lm/Lm.h"
#if __has_include("compiler/fuse/Passes.h")
#include "compiler/codegen/Passes.h"
#include "compiler/fuse/Passes.h"
#define FTLM_HAS_FUSE
#endif
#if __has_include("compiler/schedule/Passes.h")
#include "compiler/memory/Passes.h"
#include "compiler/schedule/Passes.h"
#include "dialects/plan/Plan.h"
#define FTLM_HAS_SCHEDULE
#endif

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace ftlm {

std::optional<Form> formNamed(StringRef name) {
  return llvm::StringSwitch<std::optional<Form>>(name)
      .Case("lm", Form::Lm)
      .Case("lm-grad", Form::LmGrad)
      .Case("dist", Form::Dist)
      .Case("plan", Form::Plan)
      .Default(std::nullopt);
}

void registerCompiler(DialectRegistry &registry) {
  registry.insert<dist::DistDialect, lm::LmDialect>();
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  registerDifferentiatePasses();
#ifdef FTLM_HAS_FUSE
  registerFusePasses();
  registerCodegenPasses();
#endif
#ifdef FTLM_HAS_SCHEDULE
  registry.insert<plan::PlanDialect>();
  registerSchedulePasses();
  registerMemoryPasses();
#endif
}

std::string pipelineText(Form form, StringRef rule) {
  std::string text = "builtin.module(";
  if (form >= Form::LmGrad)
    text += ("lm-programs,lm-differentiate,lm-optimizer{rule=" + rule + "},canonicalize,cse").str();
  if (form >= Form::Dist)
    text += ",dist-fuse,dist-outline-kernels";
  if (form >= Form::Plan)
    text += ",plan-lower,plan-memory";
  return text + ")";
}

LogicalResult runPipeline(ModuleOp module, Form form, const PipelineOptions &options) {
  auto settings = module->getAttrOfType<DictionaryAttr>("lm.settings");
  auto rule = settings ? settings.getAs<StringAttr>("optimizer") : StringAttr();
  if (!rule)
    return module.emitError() << "has no attribute lm.settings with the key 'optimizer'";
  if (!lm::symbolizeOptimizer(rule.getValue()))
    return module.emitError() << "names the optimizer '" << rule.getValue()
                              << "' in lm.settings; expected adamw, adam_gpt1 or sgd";
  FailureOr<OpPassManager> passes = parsePassPipeline(pipelineText(form, rule.getValue()));
  if (failed(passes))
    return failure();
  PassManager manager(module.getContext());
  static_cast<OpPassManager &>(manager) = std::move(*passes);
  if (options.statistics)
    manager.enableStatistics();
  if (options.timing)
    manager.enableTiming();
  if (options.printAfterAll) {
    module.getContext()->disableMultithreading();
    manager.enableIRPrinting([](Pass *, Operation *) { return false; },
                             [](Pass *, Operation *) { return true; }, /*printModuleScope=*/true);
  }
  return manager.run(module);
}

} // namespace ftlm
