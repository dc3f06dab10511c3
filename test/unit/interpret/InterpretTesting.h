// SPDX-License-Identifier: Apache-2.0
// What the tests of the interpreter share: modules from text, runs of a program, numeric
// derivatives. A module that does not parse or a run that fails is a failed test with the
// diagnostic in its message.
#pragma once

#include "compiler/interpret/Interpreter.h"
#include "dialects/lm/Lm.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <filesystem>
#include <functional>
#include <gmock/gmock.h>

namespace ftlm::interpret {

using Inputs = llvm::StringMap<Tensor>;

/// A context with the lm dialect, whose diagnostics are kept.
class Diagnosed {
public:
  Diagnosed();
  mlir::MLIRContext &context() { return mlirContext; }
  /// The text of all diagnostics so far.
  const std::string &text() const { return messages; }
  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text);

private:
  mlir::MLIRContext mlirContext;
  std::string messages;
};

/// Runs @f of a module given as text.
llvm::SmallVector<Tensor> runText(llvm::StringRef text, const Inputs &inputs);
/// The diagnostics of a run of @f that fails.
std::string failureOf(llvm::StringRef text, const Inputs &inputs);

/// The derivative of `function` by `variable`, which it reads: fourth-order central differences.
double numericDerivative(double &variable, const std::function<double()> &function);

/// Random numbers of magnitude 0.1 to 1: none lies near the corner of relu.
Tensor awayFromZero(mlir::RankedTensorType type, uint64_t seed, llvm::StringRef name);

/// The folder of reference values, from FTLM_SHARED or beside the tree; empty where there is none.
std::filesystem::path goldenFolder();

/// The largest |element|.
double largest(const Tensor &tensor);

} // namespace ftlm::interpret
