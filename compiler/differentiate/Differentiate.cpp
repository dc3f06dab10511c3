// SPDX-License-Identifier: Apache-2.0
#include "compiler/differentiate/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_LMDIFFERENTIATE
#include "compiler/differentiate/Passes.h.inc"

namespace {

/// A layer class after differentiation.
struct DifferentiatedClass {
  lm::LayerClassOp forward, backward;
  unsigned results = 0; // of the class itself; the forward class returns the kept values after them
};

/// Differentiates one block: collects adjoints of its values and emits gradient ops with `b`.
class Differentiator {
public:
  Differentiator(OpBuilder &b, SymbolTable &symbols,
                 const llvm::MapVector<StringRef, DifferentiatedClass> &classes)
      : b(b), symbols(symbols), classes(classes) {}

  /// Marks what depends on a trainable parameter or on `inputs`: only those values get adjoints.
  /// `derived` values depend on parameters alone.
  void findActive(Block &block, ValueRange inputs) {
    active.insert_range(inputs);
    for (Operation &op : block) {
      bool isActive = llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); });
      bool isDerived = op.getNumOperands() > 0 &&
                       llvm::all_of(op.getOperands(), [&](Value v) { return derived.contains(v); });
      if (auto use = dyn_cast<lm::UseOp>(op)) {
        auto param = symbols.lookup<lm::ParamOp>(use.getParam());
        isActive = param && !param.getFrozen();
        isDerived = true;
      }
      for (Value result : op.getResults()) {
        if (isActive)
          active.insert(result);
        if (isDerived)
          derived.insert(result);
      }
    }
  }

  void addAdjoint(Value value, Value adjoint) { adjoints[value].push_back(adjoint); }

  /// The adjoint of a value: the sum of its contributions, or null.
  Value adjointOf(Value value) {
    auto found = adjoints.find(value);
    if (found == adjoints.end())
      return Value();
    // Contributions were found from the last use to the first.
    Value sum = found->second.front();
    for (Value next : llvm::drop_begin(found->second))
      sum = lm::AddOp::create(b, value.getLoc(), sum.getType(), sum, next);
    found->second = {sum};
    return sum;
  }

  /// Emits the gradient ops of the ops of `block` from the last to the first.
  LogicalResult run(ArrayRef<Operation *> ops) {
    for (Operation *op : llvm::reverse(ops)) {
      if (auto use = dyn_cast<lm::UseOp>(op)) {
        for (Value contribution : adjoints.lookup(use))
          lm::AccumulateGradOp::create(b, use.getLoc(), use.getParamAttr(), contribution, 0);
        continue;
      }
      if (llvm::none_of(op->getResults(), [&](Value v) { return adjoints.contains(v); }))
        continue;
      if (auto call = dyn_cast<lm::LayerCallOp>(op)) {
        callBackward(call);
        continue;
      }
      auto gradient = dyn_cast<lm::GradientOpInterface>(op);
      if (!gradient)
        return op->emitOpError("has no gradient, but the loss depends on a parameter through it");
      // What comes from a parameter alone keeps its uses apart: they may be on different ranks.
      if (op->getNumResults() == 1 && derived.contains(op->getResult(0))) {
        for (Value contribution : adjoints.lookup(op->getResult(0)))
          propagate(gradient, contribution);
        continue;
      }
      SmallVector<Value> results;
      for (Value result : op->getResults())
        results.push_back(adjointOf(result));
      propagate(gradient, results);
    }
    return success();
  }

private:
  void propagate(lm::GradientOpInterface op, ValueRange results) {
    SmallVector<bool> wanted;
    for (Value operand : op->getOperands())
      wanted.push_back(active.contains(operand));
    SmallVector<Value> found = op.buildGradient(b, results, wanted);
    // Two operands of one op that are the same value are one use.
    llvm::MapVector<Value, Value> sums;
    for (auto [operand, adjoint] : llvm::zip_equal(op->getOperands(), found)) {
      if (!adjoint || !active.contains(operand))
        continue;
      Value &sum = sums[operand];
      sum = sum ? lm::AddOp::create(b, op.getLoc(), sum.getType(), sum, adjoint) : adjoint;
    }
    for (auto [operand, sum] : sums)
      addAdjoint(operand, sum);
  }

  void callBackward(lm::LayerCallOp call) {
    const DifferentiatedClass &found = classes.find(call.getCallee())->second;
    SmallVector<Value> operands;
    for (Value result : call.getResults().take_front(found.results))
      operands.push_back(adjointOf(result));
    llvm::append_range(operands, call.getResults().drop_front(found.results));
    lm::LayerClassOp backward = found.backward;
    auto gradient = lm::LayerCallOp::create(b, call.getLoc(), backward.getResultTypes(),
                                            backward.getSymName(), operands, call.getLayer());
    for (auto [input, adjoint] : llvm::zip_equal(call.getInputs(), gradient.getResults()))
      addAdjoint(input, adjoint);
  }

  OpBuilder &b;
  SymbolTable &symbols;
  const llvm::MapVector<StringRef, DifferentiatedClass> &classes;
  DenseMap<Value, SmallVector<Value>> adjoints;
  DenseSet<Value> active, derived;
};

/// Numbers the uses of each parameter in the order of the forward pass: the last gradient is of the
/// first use.
void numberUses(Block &block) {
  llvm::MapVector<StringRef, SmallVector<lm::AccumulateGradOp>> ops;
  for (auto op : block.getOps<lm::AccumulateGradOp>())
    ops[op.getParam()].push_back(op);
  for (auto &[param, list] : ops)
    for (auto [number, op] : llvm::enumerate(llvm::reverse(list)))
      op.setUse(static_cast<int64_t>(number));
}

struct LmDifferentiatePass : impl::LmDifferentiateBase<LmDifferentiatePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    auto loss = symbols.lookup<lm::ProgramOp>("loss");
    if (!loss) {
      module.emitError("has no lm.program @loss to differentiate");
      return signalPassFailure();
    }
    llvm::MapVector<StringRef, DifferentiatedClass> classes;
    llvm::SetVector<StringRef> called;
    loss.walk([&](lm::LayerCallOp call) { called.insert(call.getCallee()); });
    for (StringRef name : called)
      if (failed(differentiateClass(symbols.lookup<lm::LayerClassOp>(name), symbols, classes)))
        return signalPassFailure();
    if (failed(differentiateLoss(loss, symbols, classes)))
      return signalPassFailure();
    for (auto &[name, found] : classes)
      symbols.erase(symbols.lookup(name));
  }

  LogicalResult differentiateClass(lm::LayerClassOp original, SymbolTable &symbols,
                                   llvm::MapVector<StringRef, DifferentiatedClass> &classes) {
    OpBuilder b(&getContext());
    b.setInsertionPointAfter(original);
    auto forward = cast<lm::LayerClassOp>(b.clone(*original));
    forward.setSymName((original.getSymName() + ".forward").str());
    symbols.insert(forward);
    b.setInsertionPointAfter(forward);
    FunctionType type = original.getFunctionType();
    SmallVector<Attribute> names;
    for (unsigned i = 0; i < type.getNumResults(); ++i)
      names.push_back(b.getStringAttr(type.getNumResults() == 1 ? "dy" : "dy" + std::to_string(i)));
    auto backward =
        lm::LayerClassOp::create(b, original.getLoc(), (original.getSymName() + ".backward").str(),
                                 b.getFunctionType(type.getResults(), type.getInputs()),
                                 b.getArrayAttr(names), nullptr, nullptr);
    SmallVector<Location> locations(type.getNumResults(), original.getLoc());
    Block *block = b.createBlock(&backward.getBody(), {}, type.getResults(), locations);

    Block &body = forward.getBody().front();
    auto returnOp = cast<lm::ReturnOp>(body.getTerminator());
    Differentiator differentiator(b, symbols, classes);
    differentiator.findActive(body, body.getArguments());
    for (auto [result, adjoint] : llvm::zip_equal(returnOp.getOperands(), block->getArguments()))
      differentiator.addAdjoint(result, adjoint);
    SmallVector<Operation *> ops;
    for (Operation &op : body.without_terminator())
      ops.push_back(&op);
    if (failed(differentiator.run(ops)))
      return failure();
    SmallVector<Value> results;
    for (BlockArgument argument : body.getArguments()) {
      Value adjoint = differentiator.adjointOf(argument);
      if (!adjoint)
        return original.emitOpError()
               << "argument " << argument.getArgNumber() << " does not reach the result";
      results.push_back(adjoint);
    }
    lm::ReturnOp::create(b, original.getLoc(), results);
    numberUses(*block);
    unsigned count = keepValues(forward, backward, names);
    symbols.insert(backward);
    kept += count;
    classes[original.getSymName()] = {forward, backward, type.getNumResults()};
    return success();
  }

  /// The gradient ops refer to values of the forward class: uses of parameters are repeated in the
  /// backward class, other values are returned by the one and passed to the other. Returns how
  /// many.
  unsigned keepValues(lm::LayerClassOp forward, lm::LayerClassOp backward,
                      SmallVector<Attribute> names) {
    Block &from = forward.getBody().front(), &to = backward.getBody().front();
    OpBuilder b(&to, to.begin());
    llvm::MapVector<Value, Value> here;
    SmallVector<Value> keep;
    for (Operation &op : llvm::make_early_inc_range(to))
      for (OpOperand &operand : op.getOpOperands()) {
        Value value = operand.get();
        if (value.getParentBlock() != &from)
          continue;
        Value &local = here[value];
        if (!local) {
          if (auto use = value.getDefiningOp<lm::UseOp>()) {
            local = b.clone(*use)->getResult(0);
          } else {
            local = to.addArgument(value.getType(), value.getLoc());
            keep.push_back(value);
            names.push_back(b.getStringAttr("kept" + std::to_string(keep.size() - 1)));
          }
        }
        operand.set(local);
      }
    auto returnOp = cast<lm::ReturnOp>(from.getTerminator());
    returnOp.getOperandsMutable().append(keep);
    forward.setFunctionType(b.getFunctionType(from.getArgumentTypes(), returnOp.getOperandTypes()));
    backward.setFunctionType(b.getFunctionType(to.getArgumentTypes(), backward.getResultTypes()));
    backward.setArgumentNamesAttr(b.getArrayAttr(names));
    return static_cast<unsigned>(keep.size());
  }

  LogicalResult differentiateLoss(lm::ProgramOp loss, SymbolTable &symbols,
                                  const llvm::MapVector<StringRef, DifferentiatedClass> &classes) {
    Block &body = loss.getBody().front();
    auto returnOp = cast<lm::ReturnOp>(body.getTerminator());
    if (returnOp.getNumOperands() != 1 ||
        cast<RankedTensorType>(returnOp.getOperandTypes()[0]).getRank() != 0)
      return loss.emitOpError("must return one scalar: the loss");
    // The calls now return what the backward pass needs, too.
    OpBuilder b(&getContext());
    for (auto call : llvm::make_early_inc_range(body.getOps<lm::LayerCallOp>())) {
      const DifferentiatedClass &found = classes.find(call.getCallee())->second;
      lm::LayerClassOp forward = found.forward;
      b.setInsertionPoint(call);
      auto replacement =
          lm::LayerCallOp::create(b, call.getLoc(), forward.getResultTypes(), call.getCallee(),
                                  call.getInputs(), call.getLayer());
      for (auto [from, to] : llvm::zip(call.getResults(), replacement.getResults()))
        from.replaceAllUsesWith(to);
      call.erase();
    }
    SmallVector<Operation *> ops;
    for (Operation &op : body.without_terminator())
      ops.push_back(&op);
    b.setInsertionPoint(returnOp);
    Differentiator differentiator(b, symbols, classes);
    differentiator.findActive(body, {});
    if (failed(seed(returnOp.getOperands().front(), b, differentiator)) ||
        failed(differentiator.run(ops)))
      return failure();
    for (auto call : body.getOps<lm::LayerCallOp>())
      if (auto found = classes.find(call.getCallee()); found != classes.end()) {
        lm::LayerClassOp forward = found->second.forward;
        call.setCallee(forward.getSymName());
      }
    numberUses(body);
    return symbols.rename(loss, "micro_batch");
  }

  /// Starts from the loss: a sum of weighted cross-entropies, whose weights hold the whole
  /// objective, so that each of them has the adjoint 1.
  LogicalResult seed(Value loss, OpBuilder &b, Differentiator &differentiator) {
    if (auto add = loss.getDefiningOp<lm::AddOp>())
      return success(succeeded(seed(add.getLhs(), b, differentiator)) &&
                     succeeded(seed(add.getRhs(), b, differentiator)));
    auto sum = loss.getDefiningOp<lm::SumOp>();
    auto term = sum ? sum.getInput().getDefiningOp<lm::CrossEntropyOp>() : nullptr;
    if (!term)
      return emitError(loss.getLoc(), "the loss is not a sum of weighted cross-entropies");
    differentiator.addAdjoint(term.getLogits(),
                              lm::CrossEntropyGradOp::create(
                                  b, term.getLoc(), term.getLogits().getType(), term.getLogits(),
                                  term.getLse(), term.getTargets(), term.getWeights()));
    return success();
  }
};

} // namespace
} // namespace ftlm
