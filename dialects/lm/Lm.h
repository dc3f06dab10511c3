// SPDX-License-Identifier: Apache-2.0
// The lm dialect: a transformer language model on whole tensors. Include this for the ops, the
// attributes and the interfaces; the descriptions are in LmOps.td.
#pragma once

#include "dialects/kernel/RowEmitter.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ftlm::planir {
class InstructionBuilder;
}

#include "dialects/lm/LmDialect.h.inc"
#include "dialects/lm/LmEnums.h.inc"
#include "dialects/lm/LmInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/lm/LmAttributes.h.inc"

namespace ftlm::lm {

/// The name of a member of a parameter family: `name` with its `*` replaced by `layer`.
/// A name without `*` is returned as it is.
std::string memberName(llvm::StringRef name, int64_t layer);

/// The random site of an op: sites 0..15 outside layers stay as they are; in a layer class, site s
/// (0..15) of layer i is 16 * (i + 1) + s, so that no two ops of a model share one.
inline int64_t globalSite(int64_t site, std::optional<int64_t> layer) {
  return layer ? 16 * (*layer + 1) + site : site;
}

} // namespace ftlm::lm

#define GET_OP_CLASSES
#include "dialects/lm/LmOps.h.inc"

namespace ftlm::lm {

/// The name of the attribute that an op of a layer class carries after the class was expanded.
inline constexpr llvm::StringLiteral layerAttrName = "lm.layer";
/// The layer that an op was expanded for.
std::optional<int64_t> layerOf(mlir::Operation *op);

/// The program with this purpose, or null.
ProgramOp programFor(mlir::ModuleOp module, Purpose purpose);

/// One parameter of the model: a declaration, or a member of a family.
struct Member {
  ParamOp param;
  std::optional<int64_t> layer;
  std::string name; // global
};
/// All parameters in the order of checkpoints: layer by layer, and what stands outside layers
/// around them.
std::vector<Member> membersOf(mlir::ModuleOp module);

/// Checks that `name` is a parameter or a state of type `type`, a family exactly where there is a
/// layer.
llvm::LogicalResult verifyStateUse(mlir::Operation *op, mlir::FlatSymbolRefAttr name,
                                   mlir::Type type, mlir::SymbolTableCollection &symbols);

} // namespace ftlm::lm
