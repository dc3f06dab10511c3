// SPDX-License-Identifier: Apache-2.0
// What an op sees while it becomes instructions (lm::InstructionOpInterface): the buffers of its
// tensors, scratch, names. Made by compiler/schedule for each op in turn.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ftlm::planir {

class InstructionBuilder {
public:
  InstructionBuilder(mlir::MLIRContext *context, mlir::ModuleOp kernelModule, int64_t threadCount)
      : b(mlir::UnknownLoc::get(context), context), kernels(kernelModule), threads(threadCount) {}
  virtual ~InstructionBuilder() = default;

  /// The buffer that holds a tensor: an operand's, or the place that was chosen for a result.
  virtual mlir::Value buffer(mlir::Value tensor) = 0;
  /// Scratch for one instruction.
  virtual mlir::Value workspace(const llvm::Twine &name, mlir::RankedTensorType type) = 0;
  /// The global name of the parameter that a value is, without its last part: "h.3.mlp.c_fc"; empty
  /// when the value is no parameter.
  virtual std::string ownerOf(mlir::Value value) = 0;
  /// "layer 3: what", or `what` outside layers.
  virtual std::string nameOf(mlir::Operation *op, const llvm::Twine &what) = 0;

  mlir::ImplicitLocOpBuilder b;
  mlir::ModuleOp kernels; // generated functions
  int64_t threads;        // of the plan: workspaces have a part for each
};

} // namespace ftlm::planir
