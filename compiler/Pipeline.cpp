// SPDX-License-Identifier: Apache-2.0
#include "compiler/Pipeline.h"

#include "compiler/codegen/Passes.h"
#include "compiler/differentiate/Passes.h"
#include "compiler/fuse/Passes.h"
#include "compiler/interpret/Passes.h"
#include "compiler/memory/Passes.h"
#include "compiler/schedule/Passes.h"

#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace ftlm {

std::optional<Stage> stageNamed(StringRef name) {
  return llvm::StringSwitch<std::optional<Stage>>(name)
      .Case("lm", Stage::Lm)
      .Case("lm-grad", Stage::LmGrad)
      .Case("dist", Stage::Dist)
      .Case("plan", Stage::Plan)
      .Default(std::nullopt);
}

void registerAllDialects(DialectRegistry &registry) {
  registry.insert<dist::DistDialect, lm::LmDialect, planir::PlanDialect, arith::ArithDialect,
                  func::FuncDialect, LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                  vector::VectorDialect>();
}

void registerAllPasses() {
  registerTransformsPasses();
  registerDifferentiatePasses();
  registerFusePasses();
  registerCodegenPasses();
  registerSchedulePasses();
  registerMemoryPasses();
  registerInterpretPasses();
}

void addPasses(PassManager &passes, Stage stage, const StepOptions &step) {
  if (stage == Stage::Lm)
    return;
  passes.addPass(createLmPrograms());
  passes.addPass(createLmDifferentiate());
  passes.addPass(createLmStep(LmStepOptions{step.rule, step.microBatches}));
  passes.addPass(createCSEPass());
  if (stage == Stage::LmGrad)
    return;
  passes.addPass(createDistFuse());
  passes.addPass(createDistOutlineKernels());
  if (stage == Stage::Dist)
    return;
  passes.addPass(createDistInlineLayers());
  passes.addPass(createPlanLower());
  passes.addPass(createPlanMemory());
}

LogicalResult runPipeline(ModuleOp module, Stage stage, const PipelineOptions &options) {
  auto settings = module->getAttrOfType<DictionaryAttr>("lm.settings");
  auto rule = settings ? settings.getAs<StringAttr>("optimizer") : StringAttr();
  auto number = [&](StringRef key) {
    auto value = settings ? settings.getAs<IntegerAttr>(key) : IntegerAttr();
    return value ? std::max<int64_t>(1, value.getInt()) : 1;
  };
  if (!rule)
    return module.emitError() << "has no attribute lm.settings with the key 'optimizer'";
  if (!lm::symbolizeOptimizer(rule.getValue()))
    return module.emitError() << "names the optimizer '" << rule.getValue()
                              << "' in lm.settings; expected adamw, adam_gpt1 or sgd";
  PassManager passes(module.getContext());
  int64_t batch = number("batch"), microBatch = number("micro_batch");
  addPasses(passes, stage, {rule.getValue().str(), (batch + microBatch - 1) / microBatch});
  if (options.statistics)
    passes.enableStatistics();
  if (options.timing)
    passes.enableTiming();
  if (options.printAfterAll) {
    module.getContext()->disableMultithreading();
    passes.enableIRPrinting([](Pass *, Operation *) { return false; },
                            [](Pass *, Operation *) { return true; }, /*printModuleScope=*/true);
  }
  return passes.run(module);
}

} // namespace ftlm
