// SPDX-License-Identifier: Apache-2.0
// The path of a module through the compiler: which passes run in which order, and the forms at
// which it can be looked at. Import a module, then run it up to a form; the form `Plan` is what
// compiler/write takes. Mistakes are reported as diagnostics.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>

namespace ftlm {

/// How far to go.
enum class Stage { Lm, LmGrad, Dist, Plan };

/// The stage that `--emit NAME` means: lm, lm-grad, dist or plan.
std::optional<Stage> stageNamed(llvm::StringRef name);

/// All dialects that a module of ours can hold.
void registerAllDialects(mlir::DialectRegistry &registry);
/// All passes of ours.
void registerAllPasses();
/// What a step does.
struct StepOptions {
  std::string rule = "adamw"; // the update rule: adamw, adam_gpt1 or sgd
  int64_t microBatches = 1;
};
/// Adds the passes up to `stage`.
void addPasses(mlir::PassManager &passes, Stage stage, const StepOptions &step);

/// What a developer wants to see of the passes. Everything goes to standard error.
struct PipelineOptions {
  bool statistics = false;    // the statistics of each pass
  bool timing = false;        // the time of each pass
  bool printAfterAll = false; // the module after each pass that changed it
};

/// Takes an imported module to `stage`. Its `lm.settings` say which update rule it wants.
mlir::LogicalResult runPipeline(mlir::ModuleOp module, Stage stage,
                                const PipelineOptions &options = {});

} // namespace ftlm
