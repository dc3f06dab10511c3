// SPDX-License-Identifier: Apache-2.0
#include "compiler/Pipeline.h"

#include "compiler/codegen/Passes.h"
#include "compiler/differentiate/Passes.h"
#include "compiler/fuse/Passes.h"
#include "compiler/memory/Passes.h"
#include "compiler/schedule/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace ftlm {

void registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<dist::DistDialect, lm::LmDialect, planir::PlanDialect, mlir::arith::ArithDialect,
                  mlir::func::FuncDialect, mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::vector::VectorDialect>();
}

void registerAllPasses() {
  mlir::registerTransformsPasses();
  registerDifferentiatePasses();
  registerFusePasses();
  registerCodegenPasses();
  registerSchedulePasses();
  registerMemoryPasses();
}

void addPasses(mlir::PassManager &passes, Stage stage, const std::string &rule) {
  if (stage == Stage::Lm)
    return;
  passes.addPass(createLmPrograms());
  passes.addPass(createLmDifferentiate());
  passes.addPass(createLmOptimizer(LmOptimizerOptions{rule}));
  passes.addPass(mlir::createCSEPass());
  if (stage == Stage::LmGrad)
    return;
  passes.addPass(createDistFuse());
  passes.addPass(createDistOutlineKernels());
  passes.addPass(createPlanLower());
  passes.addPass(createPlanMemory());
}

} // namespace ftlm
