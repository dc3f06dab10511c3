// SPDX-License-Identifier: Apache-2.0
// The path of a module through the compiler: which passes run in which order, and where it can be
// looked at. Import a module, then run it up to a form; the result of `Plan` is what compiler/write
// takes. All passes stay behind this header: their own headers are not needed to run them.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <optional>
#include <string>
#include <vector>

namespace ftlm {

/// The forms at which the path can stop, in their order.
enum class Form { Lm, LmGrad, Dist, Plan };

/// The form that `--emit NAME` means: lm, lm-grad, dist or plan.
std::optional<Form> formNamed(llvm::StringRef name);

/// What a developer wants to see of the passes. Everything goes to standard error.
struct PipelineOptions {
  bool statistics = false;    // the statistics of each pass
  bool timing = false;        // the time of each pass
  bool printAfterAll = false; // the module after each pass
};

/// Makes all passes and dialects of the path known.
void registerCompiler(mlir::DialectRegistry &registry);

/// The passes from an imported module to `form`, as text: what `ftlm-opt --pass-pipeline` takes.
/// `rule` is the update rule as the lm dialect spells it.
std::string pipelineText(Form form, llvm::StringRef rule);

/// Takes an imported module to `form`. Its `lm.settings` say which update rule it wants. Mistakes
/// are reported as diagnostics.
mlir::LogicalResult runPipeline(mlir::ModuleOp module, Form form,
                                const PipelineOptions &options = {});

} // namespace ftlm
