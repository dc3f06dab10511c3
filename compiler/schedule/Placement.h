// SPDX-License-Identifier: Apache-2.0
// Which values of a program share a buffer. A kernel's result takes over the buffer of an input
// that the kernel may overwrite (dist.launch, `in_place`) when nothing reads it afterwards; the
// next value of a parameter takes over the parameter's. Works on programs whose layers are
// expanded.
#pragma once

#include "dialects/dist/Dist.h"
#include "dialects/lm/Lm.h"

namespace ftlm {

/// The name and the layer (-1 outside layers) that an lm.use or lm.assign refers to.
using StateKey = std::pair<mlir::Attribute, int64_t>;
StateKey keyOf(mlir::Operation *op, mlir::FlatSymbolRefAttr name);

class Placement {
public:
  explicit Placement(lm::ProgramOp program);

  /// The value in whose buffer `value` lies: itself, or an earlier one.
  mlir::Value rootOf(mlir::Value value) const;
  /// The last op of the root's block that reads or writes its buffer, the terminator left out.
  mlir::Operation *lastUse(mlir::Value root) const;
  /// How many values took over a buffer.
  unsigned shared() const { return roots.size(); }

private:
  void place(dist::LaunchOp launch);
  bool mayTakeState(dist::LaunchOp launch, mlir::Value result, mlir::Value input) const;
  bool mayTake(dist::LaunchOp launch, mlir::Value input) const;

  llvm::DenseMap<mlir::Value, mlir::Value> roots;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> members; // of a root, itself too
  /// The values that a parameter or state has in the program, by name and layer.
  llvm::DenseMap<StateKey, llvm::SmallVector<mlir::Value>> states;
};

} // namespace ftlm
