// SPDX-License-Identifier: Apache-2.0
#include "compiler/differentiate/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_LMDIFFERENTIATE
#include "compiler/differentiate/Passes.h.inc"

namespace {

/// A value of the forward class that the backward class needs: an argument or a result.
struct Kept {
  bool isArgument;
  unsigned number;
};

/// A layer class after differentiation.
struct DifferentiatedClass {
  lm::LayerClassOp forward, backward;
  unsigned results = 0; // of the class itself; the forward class returns more for the backward pass
  SmallVector<Kept> kept;             // what the backward class takes after the adjoints
  SmallVector<unsigned> arguments;    // those that have an adjoint: the backward class's results,
  SmallVector<std::string> gradients; // then a gradient for each use of a family, in their order
};

/// Gradients of uses of parameters, from the last use to the first.
using Gradients = llvm::MapVector<StringRef, SmallVector<Value>>;

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
      // Seeds of random numbers do not count.
      auto isData = [](Value v) {
        return cast<RankedTensorType>(v.getType()).getElementType().isFloat();
      };
      bool isDerived = llvm::any_of(op.getOperands(), isData) &&
                       llvm::all_of(op.getOperands(),
                                    [&](Value v) { return !isData(v) || derived.contains(v); });
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
        llvm::append_range(gradients[use.getParam()], adjoints.lookup(use));
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

  /// Gradients of the uses in this block, by the names that they use.
  Gradients gradients;
  /// Gradients that calls gave, by the names of the members.
  llvm::StringMap<SmallVector<Value>> memberGradients;

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
    for (Kept kept : found.kept)
      operands.push_back(kept.isArgument ? call.getInputs()[kept.number]
                                         : call.getResults()[kept.number]);
    lm::LayerClassOp backward = found.backward;
    auto gradient = lm::LayerCallOp::create(b, call.getLoc(), backward.getResultTypes(),
                                            backward.getSymName(), operands, call.getLayer());
    for (auto [number, adjoint] : llvm::zip(found.arguments, gradient.getResults()))
      addAdjoint(call.getInputs()[number], adjoint);
    ResultRange rest = gradient.getResults().drop_front(found.arguments.size());
    for (auto [family, value] : llvm::reverse(llvm::zip_equal(found.gradients, rest)))
      memberGradients[lm::memberName(family, call.getLayer())].push_back(value);
  }

  OpBuilder &b;
  SymbolTable &symbols;
  const llvm::MapVector<StringRef, DifferentiatedClass> &classes;
  DenseMap<Value, SmallVector<Value>> adjoints;
  DenseSet<Value> active, derived;
};

struct LmDifferentiatePass : impl::LmDifferentiateBase<LmDifferentiatePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    lm::ProgramOp loss = lm::programFor(module, lm::Purpose::Objective);
    if (!loss) {
      module.emitError("has no lm.program objective to differentiate");
      return signalPassFailure();
    }
    llvm::MapVector<StringRef, DifferentiatedClass> classes;
    llvm::SetVector<StringRef> called;
    loss.walk([&](lm::LayerCallOp call) { called.insert(call.getCallee()); });
    for (StringRef name : called)
      if (failed(differentiateClass(symbols.lookup<lm::LayerClassOp>(name), symbols, classes)))
        return signalPassFailure();
    if (failed(differentiateObjective(loss, symbols, classes)))
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
    DifferentiatedClass found{forward, backward, type.getNumResults(), {}, {}, {}};
    for (BlockArgument argument : body.getArguments()) {
      // Seeds and numbers of examples have no adjoint.
      if (!cast<RankedTensorType>(argument.getType()).getElementType().isFloat())
        continue;
      Value adjoint = differentiator.adjointOf(argument);
      if (!adjoint)
        return original.emitOpError()
               << "argument " << argument.getArgNumber() << " does not reach the result";
      results.push_back(adjoint);
      found.arguments.push_back(argument.getArgNumber());
    }
    for (auto param : getOperation().getOps<lm::ParamOp>())
      for (Value value : llvm::reverse(differentiator.gradients.lookup(param.getSymName()))) {
        results.push_back(value);
        found.gradients.push_back(param.getSymName().str());
      }
    lm::ReturnOp::create(b, original.getLoc(), results);
    keepValues(found, names);
    SmallVector<Type> resultTypes(ValueRange(results).getTypes());
    backward.setFunctionType(b.getFunctionType(block->getArgumentTypes(), resultTypes));
    symbols.insert(backward);
    kept += static_cast<unsigned>(found.kept.size());
    classes[original.getSymName()] = found;
    return success();
  }

  /// The gradient ops refer to values of the forward class: uses of parameters are repeated in the
  /// backward class, other values are passed to it; what is no argument of the forward class is
  /// returned by it.
  void keepValues(DifferentiatedClass &found, SmallVector<Attribute> names) {
    Block &from = found.forward.getBody().front(), &to = found.backward.getBody().front();
    OpBuilder b(&to, to.begin());
    auto returnOp = cast<lm::ReturnOp>(from.getTerminator());
    unsigned results = returnOp.getNumOperands();
    llvm::MapVector<Value, Value> here;
    SmallVector<Value> returned;
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
            if (auto argument = dyn_cast<BlockArgument>(value)) {
              found.kept.push_back({true, argument.getArgNumber()});
              names.push_back(found.forward.getArgumentNames()[argument.getArgNumber()]);
            } else {
              found.kept.push_back({false, results + static_cast<unsigned>(returned.size())});
              returned.push_back(value);
              names.push_back(b.getStringAttr("kept" + std::to_string(returned.size() - 1)));
            }
          }
        }
        operand.set(local);
      }
    returnOp.getOperandsMutable().append(returned);
    found.forward.setFunctionType(
        b.getFunctionType(from.getArgumentTypes(), returnOp.getOperandTypes()));
    found.backward.setArgumentNamesAttr(b.getArrayAttr(names));
  }

  LogicalResult
  differentiateObjective(lm::ProgramOp loss, SymbolTable &symbols,
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
    // The loss, then the gradient of every use, in the order of the parameters.
    SmallVector<Value> results(returnOp.getOperands());
    SmallVector<Attribute> names(loss.getResultNames().begin(), loss.getResultNames().end());
    for (const lm::Member &member : lm::membersOf(getOperation())) {
      SmallVector<Value> uses = differentiator.memberGradients.lookup(member.name);
      if (!member.layer)
        llvm::append_range(uses, differentiator.gradients.lookup(member.name));
      for (Value value : llvm::reverse(uses)) {
        results.push_back(value);
        names.push_back(b.getStringAttr("gradient/" + member.name));
      }
    }
    returnOp.getOperandsMutable().assign(results);
    loss.setFunctionType(
        b.getFunctionType(body.getArgumentTypes(), ValueRange(results).getTypes()));
    loss.setResultNamesAttr(b.getArrayAttr(names));
    loss.setPurpose(lm::Purpose::Gradients);
    return symbols.rename(loss, "gradients");
  }

  /// Starts from the loss: a sum of weighted cross-entropies, whose weights hold the whole
  /// objective, so that each of them has the adjoint 1.
  LogicalResult seed(Value loss, OpBuilder &b, Differentiator &differentiator) {
    if (auto add = loss.getDefiningOp<lm::AddOp>())
      return success(succeeded(seed(add.getLhs(), b, differentiator)) &&
                     succeeded(seed(add.getRhs(), b, differentiator)));
    auto sum = loss.getDefiningOp<lm::SumOp>();
    auto term = sum ? sum.getInput().getDefiningOp<lm::ObjectiveOpInterface>() : nullptr;
    if (!term)
      return emitError(loss.getLoc(), "the loss is not a sum of weighted cross-entropies");
    differentiator.addAdjoint(term.getPrediction(), term.buildSeed(b));
    return success();
  }
};

} // namespace
} // namespace ftlm
