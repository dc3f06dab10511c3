// SPDX-License-Identifier: Apache-2.0
// What each op of the lm dialect means: one plain function per op, found by the op's name. A family
// of ops is a file that adds its functions to the table; adding an op is a function and a line.
// Meanings follow the formulas in dialects/lm/*.td and share nothing with the kernels, whose oracle
// they are.
#pragma once

#include "compiler/interpret/Tensor.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace ftlm::interpret {

class Interpreter;

/// Where an op runs.
struct Context {
  Interpreter &interpreter;
  std::optional<int64_t> layer;                // the layer whose class runs; none in a program
  llvm::DenseMap<mlir::Value, Tensor> &values; // of the program or layer class, so far

  /// The value of an operand; good until the next value is entered.
  const Tensor &valueOf(mlir::Value value) const { return values.find(value)->second; }
  /// The layer of an op: its own, when a class was expanded, or that of the class that runs.
  std::optional<int64_t> layerOf(mlir::Operation *op) const;
};

/// Computes `results`, which come as zeros in the shapes of the op's results. The operands fit
/// their types. What only the values can tell (a token outside the table) is checked here, and
/// reported as a diagnostic at the op.
using Meaning = llvm::LogicalResult (*)(mlir::Operation *op,
                                        llvm::ArrayRef<const Tensor *> operands,
                                        llvm::MutableArrayRef<Tensor> results,
                                        const Context &context);

using MeaningTable = llvm::StringMap<Meaning>;

/// The meanings of all ops that compute.
MeaningTable allMeanings();

void addActivationMeanings(MeaningTable &table);
void addAttentionMeanings(MeaningTable &table);
void addDropoutMeanings(MeaningTable &table);
void addElementwiseMeanings(MeaningTable &table);
void addEmbeddingMeanings(MeaningTable &table);
void addFrameMeanings(MeaningTable &table);
void addLinearMeanings(MeaningTable &table);
void addLossMeanings(MeaningTable &table);
void addNormMeanings(MeaningTable &table);
void addStateMeanings(MeaningTable &table);

/// Reports an index outside 0 to `limit` - 1 among the integers of an operand.
llvm::LogicalResult checkIndices(mlir::Operation *op, llvm::StringRef what, const Tensor &indices,
                                 int64_t limit);

} // namespace ftlm::interpret
