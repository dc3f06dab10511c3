// SPDX-License-Identifier: Apache-2.0
// The pass that places buffers in the arena. Its description is in Passes.td.
#pragma once

#include "dialects/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ftlm {

#define GEN_PASS_DECL
#include "compiler/memory/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/memory/Passes.h.inc"

} // namespace ftlm
