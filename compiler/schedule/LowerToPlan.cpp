// SPDX-License-Identifier: Apache-2.0
// Programs on tensors become instructions on buffers. Knows control flow, parameters and buffers;
// what an op becomes is said by the op (lm::InstructionOpInterface).
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Placement.h"
#include "dialects/plan/InstructionBuilder.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_PLANLOWER
#include "compiler/schedule/Passes.h.inc"

namespace {

using planir::BufferClass;

int64_t setting(ModuleOp module, StringRef key) {
  auto settings = module->getAttrOfType<DictionaryAttr>("lm.settings");
  auto number = settings ? settings.getAs<IntegerAttr>(key) : nullptr;
  return number ? number.getInt() : 1;
}

class Lowering final : public planir::InstructionBuilder {
public:
  Lowering(ModuleOp root, ModuleOp kernelModule)
      : InstructionBuilder(root.getContext(), kernelModule, setting(root, "threads")),
        module(root) {
    b.setInsertionPointToEnd(module.getBody());
  }

  LogicalResult run() {
    declareParameters();
    for (lm::ProgramOp program : llvm::to_vector(module.getOps<lm::ProgramOp>()))
      if (failed(lowerProgram(program)))
        return failure();
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (isa<lm::ProgramOp, lm::StateOp, lm::ParamOp>(op))
        op.erase();
    return success();
  }

  unsigned instructions = 0, shared = 0;

  //===--- what ops ask -------------------------------------------------------===//

  Value buffer(Value tensor) override {
    Value root = placement->rootOf(tensor);
    if (auto use = root.getDefiningOp<lm::UseOp>())
      return states.at(keyOf(use, use.getParamAttr()));
    Value &found = buffers[root];
    if (!found) {
      auto known = labels.find(root);
      auto [name, kind] = known != labels.end()
                              ? known->second
                              : std::pair(defaultName(root), BufferClass::Activation);
      found = makeBuffer(name, kind, root.getType());
    }
    return found;
  }

  Value workspace(const Twine &name, RankedTensorType type) override {
    return makeBuffer(name.str(), BufferClass::Workspace, type);
  }

  std::string ownerOf(Value value) override {
    auto use = value.getDefiningOp<lm::UseOp>();
    if (!use)
      return "";
    std::string name = use.getParam().str();
    if (auto layer = lm::layerOf(use))
      name = lm::memberName(name, *layer);
    size_t dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(0, dot);
  }

  std::string nameOf(Operation *op, const Twine &what) override {
    auto layer = lm::layerOf(op);
    return layer ? ("layer " + Twine(*layer) + ": " + what).str() : what.str();
  }

private:
  //===--- buffers --------------------------------------------------------------===//

  /// A buffer of the program, or of the module outside programs. In a loop it is declared before
  /// the loop: it may be read after it.
  Value makeBuffer(StringRef name, BufferClass kind, Type type) {
    OpBuilder::InsertionGuard guard(b);
    if (loop)
      b.setInsertionPoint(loop);
    return planir::BufferOp::create(b, planir::BufferType::get(b.getContext()), name, kind, type,
                                    IntegerAttr());
  }

  std::string defaultName(Value root) {
    Operation *op = root.getDefiningOp();
    if (!op)
      return "argument";
    auto launch = dyn_cast<dist::LaunchOp>(op);
    return nameOf(op, launch ? launch.getLabel() : op->getName().stripDialect());
  }

  void declareParameters() {
    llvm::MapVector<Attribute, SmallVector<lm::StateOp>> moments;
    for (auto state : module.getOps<lm::StateOp>())
      moments[state.getParamAttr().getAttr()].push_back(state);
    llvm::DenseSet<Attribute> assigned;
    module.walk([&](lm::AssignOp op) { assigned.insert(op.getTargetAttr().getAttr()); });
    for (const lm::Member &member : lm::membersOf(module)) {
      lm::ParamOp param = member.param;
      int64_t layer = member.layer.value_or(-1);
      auto nameIn = [&](StringRef name) {
        return member.layer ? lm::memberName(name, layer) : name.str();
      };
      Type type = param.getType();
      auto declare = [&](StringAttr name, BufferClass kind) {
        Value made = makeBuffer(nameIn(name.getValue()), kind, type);
        states[{name, layer}] = made;
        return made;
      };
      Value value = declare(param.getSymNameAttr(), BufferClass::Parameter);
      SmallVector<Value> optimizer;
      for (lm::StateOp state : moments.lookup(param.getSymNameAttr()))
        optimizer.push_back(declare(state.getSymNameAttr(), BufferClass::Optimizer));
      ArrayAttr stored;
      if (auto pieces = param.getStored()) {
        SmallVector<Attribute> renamed;
        for (auto piece : pieces->getAsRange<lm::StoredAttr>())
          renamed.push_back(lm::StoredAttr::get(b.getContext(), nameIn(piece.getName()),
                                                piece.getRow(), piece.getRows()));
        stored = b.getArrayAttr(renamed);
      }
      planir::ParameterOp::create(b, member.name, value, optimizer, type, param.getInit(),
                                  param.getDecay(), !assigned.contains(param.getSymNameAttr()),
                                  param.getViewAttr(), stored);
    }
  }

  //===--- programs -------------------------------------------------------------===//

  LogicalResult lowerProgram(lm::ProgramOp program) {
    OpBuilder::InsertionGuard guard(b);
    placement.emplace(program);
    shared += placement->shared();
    buffers.clear();
    labels.clear();
    // Both symbols cannot have one name.
    std::string name = program.getSymName().str();
    program.setSymName(name + ".lm");
    auto plan = planir::ProgramOp::create(b, program.getPurpose(), name, setting(module, "time"),
                                          "compute");
    b.createBlock(&plan.getBody());
    for (auto [argument, label] :
         llvm::zip_equal(program.getArguments(), program.getArgumentNames())) {
      StringRef kind = cast<StringAttr>(label).getValue();
      labels[argument] = {kind.str(), BufferClass::Input};
      planir::InputOp::create(b, *planir::symbolizeInputKind(kind), buffer(argument));
    }
    Operation *terminator = program.getBody().front().getTerminator();
    for (auto [value, label] :
         llvm::zip_equal(terminator->getOperands(), program.getResultNames())) {
      StringRef kind = cast<StringAttr>(label).getValue();
      labels.insert({placement->rootOf(value),
                     {kind.str(), kind.starts_with("gradient/") ? BufferClass::Gradient
                                                                : BufferClass::Output}});
    }
    if (failed(lowerBlock(program.getBody().front())))
      return failure();
    for (auto [value, label] :
         llvm::zip_equal(terminator->getOperands(), program.getResultNames())) {
      StringRef kind = cast<StringAttr>(label).getValue(), parameter = kind;
      if (parameter.consume_front("gradient/"))
        planir::OutputOp::create(b, planir::OutputKind::Gradient, b.getStringAttr(parameter),
                                 buffer(value));
      else
        planir::OutputOp::create(b, *planir::symbolizeOutputKind(kind), nullptr, buffer(value));
    }
    plan.walk([&](Operation *) { ++instructions; });
    return success();
  }

  LogicalResult lowerBlock(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (auto instruction = dyn_cast<lm::InstructionOpInterface>(op)) {
        instruction.emitInstructions(*this);
      } else if (auto assign = dyn_cast<lm::AssignOp>(op)) {
        Value target = states.at(keyOf(assign, assign.getTargetAttr()));
        if (Value source = buffer(assign.getValue()); source != target)
          copy("assign " + assign.getTarget().str(), source, target);
      } else if (auto microBatches = dyn_cast<lm::MicroBatchesOp>(op)) {
        if (failed(lowerMicroBatches(microBatches)))
          return failure();
      } else if (!isa<lm::UseOp>(op)) {
        return op.emitOpError(
            "has no instruction: it implements neither the InstructionOpInterface "
            "nor an interface of generated kernels (run dist-fuse and "
            "dist-outline-kernels first)");
      }
      auto [first, last] = sums.equal_range(&op);
      for (auto it = first; it != last; ++it)
        accumulate(it->second);
    }
    return success();
  }

  void copy(StringRef name, Value from, Value to, int64_t fromStep = 0, int64_t toStep = 0) {
    auto step = [&](int64_t bytes) { return bytes ? b.getI64IntegerAttr(bytes) : nullptr; };
    planir::CopyOp::create(b, name, from, to, step(fromStep), step(toStep));
  }

  //===--- micro-batches --------------------------------------------------------===//

  /// A sum over the micro-batches: what is added, and the levels of the tree.
  struct Sum {
    std::string name;
    Value source;
    SmallVector<Value> levels;
    int64_t elements;
  };

  LogicalResult lowerMicroBatches(lm::MicroBatchesOp op) {
    Block &body = op.getBody().front();
    auto yield = cast<lm::YieldOp>(body.getTerminator());
    loop = planir::LoopOp::create(b, "micro-batches", op.getCount());
    planir::LoopOp made = loop;
    b.createBlock(&loop.getBody());
    for (auto [slice, argument] : llvm::zip_equal(op.getSlices(), body.getArguments())) {
      std::string name = labels.contains(slice) ? labels.lookup(slice).first : "slice";
      labels[argument] = {"micro-batch " + name, BufferClass::Activation};
      copy(name, buffer(slice), buffer(argument), planir::bytesOf(argument.getType()));
    }
    // A sum is added to as soon as nothing reads its term any more: the term's bytes are free then.
    SmallVector<Sum> atEnd;
    llvm::SmallDenseSet<Value> taken;
    for (int64_t i = op.getCollected(); i < static_cast<int64_t>(op.getNumResults()); ++i) {
      Value term = yield.getOperand(i), root = placement->rootOf(term);
      Operation *owner = root.getDefiningOp();
      Sum sum = sumOf(op, i);
      bool own = owner && owner->getBlock() == &body && !isa<lm::UseOp>(owner) &&
                 taken.insert(root).second;
      if (own) {
        labels.insert({root, {sum.name + " of a micro-batch", BufferClass::Gradient}});
        sum.source = term;
        sums.insert({placement->lastUse(root), sum});
      } else {
        sum.source = term;
        atEnd.push_back(sum);
      }
    }
    if (failed(lowerBlock(body)))
      return failure();
    for (Sum &sum : atEnd) {
      Value copied =
          makeBuffer(sum.name + " of a micro-batch", BufferClass::Gradient, sum.source.getType());
      copy(sum.name, buffer(sum.source), copied);
      emitAccumulate(sum, copied);
    }
    for (int64_t i = 0; i < op.getCollected(); ++i)
      copy("collect", buffer(yield.getOperand(i)), buffer(op.getResult(i)), 0,
           planir::bytesOf(yield.getOperand(i).getType()));
    sums.clear();
    b.setInsertionPointAfter(made);
    loop = {};
    for (int64_t i = op.getCollected(); i < static_cast<int64_t>(op.getNumResults()); ++i)
      addOpenSums(op.getCount(), finished[i]);
    finished.clear();
    return success();
  }

  /// The levels 0 .. floor(log2 M) of a sum. When M is a power of two the last level gets the whole
  /// sum when all others are spent, so it is the same buffer as the one below. The top level is
  /// the result.
  Sum sumOf(lm::MicroBatchesOp op, int64_t number) {
    Value result = op.getResult(number);
    auto count = static_cast<uint64_t>(op.getCount());
    auto type = cast<RankedTensorType>(result.getType());
    auto known = labels.find(placement->rootOf(result));
    Sum sum;
    sum.name = known != labels.end() ? known->second.first : "sum " + std::to_string(number);
    sum.elements = type.getNumElements();
    if (known == labels.end())
      labels[placement->rootOf(result)] = {sum.name, BufferClass::Gradient};
    int64_t top = llvm::Log2_64(count);
    bool power = llvm::isPowerOf2_64(count);
    int64_t own = power ? top : top + 1;
    for (int64_t level = 0; level + 1 < own; ++level)
      sum.levels.push_back(
          makeBuffer(sum.name + " level " + std::to_string(level), BufferClass::Gradient, type));
    sum.levels.push_back(buffer(result));
    if (power)
      sum.levels.push_back(sum.levels.back());
    finished[number] = sum;
    return sum;
  }

  void accumulate(const Sum &sum) { emitAccumulate(sum, buffer(sum.source)); }
  void emitAccumulate(const Sum &sum, Value source) {
    planir::AccumulateOp::create(b, sum.name + " sum", source, sum.levels, addKernel(),
                                 sum.elements);
  }

  /// After the last micro-batch the bits of their number name the levels that hold sums.
  void addOpenSums(int64_t count, const Sum &sum) {
    Value open;
    for (auto [level, place] : llvm::enumerate(sum.levels))
      if (count >> level & 1) {
        if (open)
          planir::KernelOp::create(b, sum.name + " sum", addKernel(),
                                   ValueRange{place, open, place}, ArrayRef<int64_t>{2},
                                   sum.elements, kernel::elementGrain, nullptr);
        open = place;
      }
  }

  /// result = lhs + rhs, of any number of elements.
  StringRef addKernel() {
    constexpr StringRef name = "add";
    if (!kernels.lookupSymbol(name)) {
      kernel::KernelBuilder k(kernels, name);
      Value lhs = k.argument(0), rhs = k.argument(1), result = k.argument(2);
      k.rangeLoop(k.begin, k.end, {}, [&](kernel::Chunk c, ValueRange) -> SmallVector<Value> {
        Value sum = k.add(k.loadChunk(lhs, c.column, c.mask), k.loadChunk(rhs, c.column, c.mask));
        k.storeChunk(sum, result, c.column, c.mask);
        return {};
      });
    }
    return name;
  }

  ModuleOp module;
  std::optional<Placement> placement;
  DenseMap<Value, Value> buffers;                              // of roots
  DenseMap<Value, std::pair<std::string, BufferClass>> labels; // of roots
  llvm::DenseMap<StateKey, Value> states;                      // parameters and moments
  planir::LoopOp loop;                                         // around what is lowered
  std::multimap<Operation *, Sum> sums;                        // to add to after an op
  std::map<int64_t, Sum> finished;                             // by number of the result
};

struct PlanLowerPass : impl::PlanLowerBase<PlanLowerPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto kernels = module.lookupSymbol<ModuleOp>("kernels");
    if (!kernels) {
      module.emitError("has no module @kernels: run dist-outline-kernels first");
      return signalPassFailure();
    }
    Lowering lowering(module, kernels);
    if (failed(lowering.run()))
      return signalPassFailure();
    instructions += lowering.instructions;
    inPlace += lowering.shared;
  }
};

} // namespace
} // namespace ftlm
