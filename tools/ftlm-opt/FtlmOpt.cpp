// SPDX-License-Identifier: Apache-2.0
// ftlm-opt: reads a module in any of ftlm's dialects, runs the passes named on the command line and
// prints the result. For tests and for looking at a single pass.
#include "compiler/differentiate/Passes.h"
#include "dialects/dist/Dist.h"
#include "dialects/lm/Lm.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<ftlm::dist::DistDialect, ftlm::lm::LmDialect>();
  mlir::registerTransformsPasses();
  ftlm::registerDifferentiatePasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "ftlm's optimizer driver\n", registry));
}
