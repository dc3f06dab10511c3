// SPDX-License-Identifier: Apache-2.0
// The table of gradient cases: for each differentiable op, small layer classes around it.
// `instantiate` makes the text for given sizes; `buildCase` adds the class of its gradient.
#pragma once

#include "test/unit/interpret/InterpretTesting.h"

namespace ftlm::interpret {

/// A layer class @f that holds one op called `op` and returns those of its results that are
/// differentiated. In the text $B, $T and $C stand for sizes, $3C for three times C.
struct GradientCase {
  const char *name;
  const char *op;
  const char *text;
};

struct Sizes {
  int64_t batch, time, channels;
};

llvm::ArrayRef<GradientCase> gradientCases();

std::string instantiate(const GradientCase &tested, Sizes sizes);

/// @gradient of a case's module: takes the arguments of @f and an adjoint for each of its results,
/// and returns an adjoint for each float operand of the op.
struct BuiltCase {
  lm::LayerClassOp forward, gradient;
  mlir::Operation *op = nullptr;          // in @f
  llvm::SmallVector<unsigned> arguments;  // of @f; result i of @gradient belongs to arguments[i]
  llvm::SmallVector<std::string> emitted; // names of the ops that the gradient consists of
};

/// Adds @gradient; a failed expectation leaves `gradient` null.
BuiltCase buildCase(mlir::ModuleOp module, const GradientCase &tested);

} // namespace ftlm::interpret
