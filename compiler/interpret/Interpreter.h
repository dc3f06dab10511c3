// SPDX-License-Identifier: Apache-2.0
// The reference interpreter: runs a module of the lm dialect in float64, as the oracle of passes
// and kernels. Give it a verified module, set the parameters by their global names, and run
// programs. Mistakes of the caller and of the data are reported as diagnostics of the module.
#pragma once

#include "compiler/interpret/Meanings.h"
#include "compiler/interpret/Random.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace ftlm::interpret {

class Interpreter {
public:
  /// The module must outlive the interpreter and must not lose symbols meanwhile. States are 0.
  explicit Interpreter(mlir::ModuleOp module);

  /// Sets one parameter; a member of a family goes by its global name ("h.0.ln_1.weight").
  llvm::LogicalResult setParameter(llvm::StringRef name, Tensor value);
  /// The value of a parameter or a state; null for a parameter before it is set.
  const Tensor *findParameter(llvm::StringRef name) const;
  /// Fills every parameter with numbers that are a function of (seed, name), spread around its
  /// initial constant or around 0.
  void setRandomParameters(uint64_t seed);
  /// The types of all parameters by global name.
  const llvm::StringMap<mlir::RankedTensorType> &parameterTypes() const { return types; }

  /// Runs a program or a layer class on inputs by the names of its arguments; returns its results.
  /// When it has run, what it assigned becomes the value of parameters and states.
  llvm::FailureOr<llvm::SmallVector<Tensor>> run(llvm::StringRef program,
                                                 const llvm::StringMap<Tensor> &inputs);
  /// Inputs for a program or a layer class that are a function of (seed, name of the argument):
  /// `random` is {seed, 0}, `examples` counts from 0, `hyper` is that of a first step, all others
  /// are random.
  llvm::FailureOr<llvm::StringMap<Tensor>> randomInputs(llvm::StringRef program, uint64_t seed);

  /// Keeps the value that a parameter or a state gets when the program has run. For meanings of
  /// ops.
  void assign(llvm::StringRef name, Tensor value) { next[name] = std::move(value); }

  /// Runs a layer class or a program with values of its own. For meanings of ops.
  llvm::FailureOr<llvm::SmallVector<Tensor>>
  call(llvm::StringRef symbol, llvm::SmallVector<Tensor> arguments, std::optional<int64_t> layer);
  /// Runs a block within the values of `context`; returns what its terminator holds.
  llvm::FailureOr<llvm::SmallVector<Tensor>>
  runBlock(mlir::Block &block, llvm::SmallVector<Tensor> arguments, const Context &context);

private:
  /// The program or layer class of that name.
  llvm::FailureOr<mlir::FunctionOpInterface> find(llvm::StringRef name);
  llvm::LogicalResult runOp(mlir::Operation &op, const Context &context);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  MeaningTable meanings;
  llvm::StringMap<mlir::RankedTensorType> types;
  llvm::StringMap<Tensor> parameters; // and states
  llvm::StringMap<Tensor> next;       // what becomes of parameters and states after the program
};

} // namespace ftlm::interpret
