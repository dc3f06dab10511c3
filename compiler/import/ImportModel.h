// SPDX-License-Identifier: Apache-2.0
// Finds what the MODEL of a command line means and imports it: the name of a description, a
// description, a Hugging Face folder or a module in the lm dialect. Give it the words of the user;
// the result is a verified module, or an error that names the file and what would be right.
#pragma once

#include "compiler/import/BuildModule.h"

#include "llvm/Support/SourceMgr.h"

#include <vector>

namespace ftlm {

/// The folders in which a description may be named without path and suffix: the one that the
/// environment variable FTLM_MODELS_DIR names, else those beside the program (of the source tree,
/// of an installation).
std::vector<std::string> modelFolders(const char *program);

/// Imports `model`. A module in the lm dialect brings its own sizes: options other than the
/// defaults are refused for it. `sources` receives the text of such a module, for diagnostics.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(mlir::MLIRContext &context, const std::string &model, const ImportOptions &options,
            const std::vector<std::string> &folders, llvm::SourceMgr &sources);

} // namespace ftlm
