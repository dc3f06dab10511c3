// SPDX-License-Identifier: Apache-2.0
// The pass that runs a program in the reference interpreter. Its description is in Passes.td.
#pragma once

#include "dialects/lm/Lm.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ftlm {

#define GEN_PASS_DECL
#include "compiler/interpret/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/interpret/Passes.h.inc"

} // namespace ftlm
