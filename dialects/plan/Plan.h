// SPDX-License-Identifier: Apache-2.0
// The plan dialect: instructions on buffers at fixed places, no tensors. Include this for the ops;
// the descriptions are in PlanOps.td. (ftlm::plan is the FlatBuffers form that files hold.)
#pragma once

#include "dialects/lm/Lm.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/plan/PlanDialect.h.inc"
#include "dialects/plan/PlanEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.h.inc"

namespace ftlm::planir {

/// The buffers that an instruction reads and writes; one that is both stands in both. Empty for
/// other ops.
llvm::SmallVector<mlir::Value> readsOf(mlir::Operation *op);
llvm::SmallVector<mlir::Value> writesOf(mlir::Operation *op);
/// Bytes of a tensor's contents.
int64_t bytesOf(mlir::Type type);
/// The buffer that a view is a part of (through several views), or the buffer itself.
mlir::Value rootOf(mlir::Value buffer);

} // namespace ftlm::planir
