// SPDX-License-Identifier: Apache-2.0
// The order of the passes, from an imported module to the form that was asked for. Statistics and printing are
// set up by the caller on the pass manager.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

#include <string>

namespace ftlm {

/// How far to go.
enum class Stage { Lm, LmGrad, Plan };

/// All dialects that a module of ours can hold.
void registerAllDialects(mlir::DialectRegistry &registry);
/// All passes of ours.
void registerAllPasses();
/// Adds the passes up to `stage`. `rule` is the update rule: adamw, adam_gpt1 or sgd.
void addPasses(mlir::PassManager &passes, Stage stage, const std::string &rule);

} // namespace ftlm
