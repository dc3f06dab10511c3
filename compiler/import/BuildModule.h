// SPDX-License-Identifier: Apache-2.0
// Turns a model description into a module of the lm dialect: the importer's second half. Give the
// sizes of a step, get a verified module with the objective and the program for generation. Sizes
// are checked against the model.
#pragma once

#include "compiler/import/ModelDescription.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace ftlm {

/// The sizes of a step and what the user chose about it.
struct ImportOptions {
  int64_t batch = 0;               // sequences a step over all ranks; 0: the model's default
  int64_t microBatch = 0;          // sequences computed at a time
  int64_t time = 0;                // positions of a sequence
  int64_t threads = 0;             // at most so many a rank; 0: 1
  std::string optimizer = "adamw"; // as the lm dialect spells it
  std::optional<double> dropout;   // overrides all rates of the model
};

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
buildModule(mlir::MLIRContext &context, ModelDescription model, ImportOptions options);

} // namespace ftlm
