// SPDX-License-Identifier: Apache-2.0
#include "compiler/differentiate/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_LMPROGRAMS
#include "compiler/differentiate/Passes.h.inc"

namespace {

/// Takes the random numbers out of a function's body.
void removeRandom(FunctionOpInterface function) {
  SmallVector<lm::RandomOpInterface> ops;
  function.walk([&](lm::RandomOpInterface op) { ops.push_back(op); });
  for (lm::RandomOpInterface op : ops)
    op.removeRandom();
}

/// Removes the arguments that nothing uses; returns which stay.
template <typename Function>
llvm::BitVector dropUnusedArguments(Function function) {
  Block &block = function.getBody().front();
  llvm::BitVector unused(block.getNumArguments());
  SmallVector<Attribute> names;
  for (auto [argument, name] : llvm::zip_equal(block.getArguments(), function.getArgumentNames())) {
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
    else
      names.push_back(name);
  }
  block.eraseArguments(unused);
  OpBuilder b(function);
  function.setArgumentNamesAttr(b.getArrayAttr(names));
  function.setFunctionType(b.getFunctionType(block.getArgumentTypes(), function.getResultTypes()));
  return unused;
}

struct LmProgramsPass : impl::LmProgramsBase<LmProgramsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    lm::ProgramOp objective = lm::programFor(module, lm::Purpose::Objective);
    if (!objective) {
      module.emitError("has no lm.program objective to make @evaluate from");
      return signalPassFailure();
    }
    OpBuilder b(objective);
    b.setInsertionPointAfter(objective);
    auto evaluate = cast<lm::ProgramOp>(b.clone(*objective));
    evaluate.setSymName("evaluate");
    evaluate.setPurpose(lm::Purpose::Evaluate);
    symbols.insert(evaluate);
    evaluate.walk([&](lm::LayerCallOp call) {
      std::string name = (call.getCallee() + ".evaluate").str();
      if (!symbols.lookup(name)) {
        auto original = symbols.lookup<lm::LayerClassOp>(call.getCallee());
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointAfter(original);
        auto copy = cast<lm::LayerClassOp>(b.clone(*original));
        copy.setSymName(name);
        symbols.insert(copy);
      }
      call.setCallee(name);
    });
    makeDeterministic(evaluate, symbols);
    if (lm::ProgramOp generate = lm::programFor(module, lm::Purpose::Generate))
      makeDeterministic(generate, symbols);
  }

  /// Takes the random numbers out of a program and the classes it calls, and the arguments that
  /// only they needed.
  void makeDeterministic(lm::ProgramOp program, SymbolTable &symbols) {
    removeRandom(program);
    llvm::MapVector<StringRef, llvm::BitVector> dropped;
    program.walk([&](lm::LayerCallOp call) {
      auto [entry, isNew] = dropped.insert({call.getCallee(), {}});
      if (isNew) {
        auto callee = symbols.lookup<lm::LayerClassOp>(call.getCallee());
        removeRandom(callee);
        entry->second = dropUnusedArguments(callee);
      }
      call->eraseOperands(entry->second);
    });
    dropUnusedArguments(program);
  }
};

} // namespace
} // namespace ftlm
