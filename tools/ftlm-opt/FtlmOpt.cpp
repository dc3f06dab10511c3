// SPDX-License-Identifier: Apache-2.0
// ftlm-opt: reads a module in any of ftlm's dialects, runs the passes named on the command line and
// prints the result. For tests and for looking at a single pass.
#include "compiler/Pipeline.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ftlm::registerAllDialects(registry);
  ftlm::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "ftlm's optimizer driver\n", registry));
}
