// SPDX-License-Identifier: Apache-2.0
// ftlm-lsp-server: a language server for ftlm's dialects, so that an editor shows errors, types and
// definitions in *.mlir files. It speaks the Language Server Protocol on its standard streams.
#include "compiler/Pipeline.h"

#include "mlir/Support/LLVM.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ftlm::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
