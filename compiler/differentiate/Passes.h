// SPDX-License-Identifier: Apache-2.0
// The passes that turn a model into training, evaluation and generation programs. Their
// descriptions are in Passes.td.
#pragma once

#include "dialects/lm/Lm.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ftlm {

#define GEN_PASS_DECL
#include "compiler/differentiate/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/differentiate/Passes.h.inc"

} // namespace ftlm
