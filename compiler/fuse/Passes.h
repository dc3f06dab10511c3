// SPDX-License-Identifier: Apache-2.0
// The pass that groups ops into kernels. Its description is in Passes.td.
#pragma once

#include "dialects/dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ftlm {

#define GEN_PASS_DECL
#include "compiler/fuse/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/fuse/Passes.h.inc"

} // namespace ftlm
