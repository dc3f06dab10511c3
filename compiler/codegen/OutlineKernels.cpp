// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/Passes.h"
#include "compiler/codegen/RowKernel.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_DISTOUTLINEKERNELS
#include "compiler/codegen/Passes.h.inc"

namespace {

/// The text of a group without its operands' names: equal for groups that do the same.
std::string keyOf(dist::KernelGroupOp group) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << group->getOperandTypes() << group->getResultTypes();
  DenseMap<Value, unsigned> numbers;
  auto number = [&](Value value) {
    return numbers.try_emplace(value, numbers.size()).first->second;
  };
  for (BlockArgument argument : group.getBody().getArguments())
    number(argument);
  for (Operation &op : group.getBody().front()) {
    out << ';' << op.getName() << op.getAttrDictionary() << op.getResultTypes();
    for (Value operand : op.getOperands())
      out << ' ' << number(operand);
    for (Value result : op.getResults())
      out << '>' << number(result);
  }
  return text;
}

struct DistOutlineKernelsPass : impl::DistOutlineKernelsBase<DistOutlineKernelsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder b(module.getBody(), module.getBody()->begin());
    kernelModule = ModuleOp::create(b, module.getLoc(), "kernels");
    module.walk([&](dist::KernelGroupOp group) {
      if (auto op = dyn_cast<lm::KernelOpInterface>(group.getBody().front().front()))
        outlineOne(group, op);
      else
        outlineRows(group);
    });
  }

  /// The name for a key: the one that exists, or a new one made of `label`, for which `isNew` is
  /// set.
  std::string nameFor(const std::string &key, StringRef label, bool &isNew) {
    auto [entry, inserted] = names.try_emplace(key, "");
    isNew = inserted;
    if (inserted) {
      std::string base = label.str();
      std::replace(base.begin(), base.end(), '+', '_');
      entry->second = base + "_" + std::to_string(names.size() - 1);
      ++kernels;
    }
    return entry->second;
  }

  dist::LaunchOp launch(OpBuilder &b, Location loc, TypeRange types, StringRef name,
                        StringRef label, ValueRange inputs, kernel::LaunchShape shape, bool sites,
                        ArrayRef<int64_t> inPlace) {
    bool any = llvm::any_of(inPlace, [](int64_t input) { return input >= 0; });
    return dist::LaunchOp::create(b, loc, types, name, label, inputs, shape.units, shape.grain,
                                  sites, any ? b.getDenseI64ArrayAttr(inPlace) : nullptr);
  }

  /// An op with a kernel of its own.
  void outlineOne(dist::KernelGroupOp group, lm::KernelOpInterface op) {
    OpBuilder b(group);
    bool isNew;
    std::string name = nameFor(op.kernelKey(), group.getLabel(), isNew);
    if (isNew) {
      kernel::KernelBuilder k(kernelModule, name);
      op.emitKernel(k);
    }
    SmallVector<int64_t> inPlace;
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      inPlace.push_back(op.inPlaceOperand(i));
    // The kernel's arguments are the op's operands, which a group may list once for several.
    SmallVector<Value> inputs;
    for (Value operand : op->getOperands())
      inputs.push_back(group.getInputs()[cast<BlockArgument>(operand).getArgNumber()]);
    auto replacement = launch(b, group.getLoc(), group.getResultTypes(), name, group.getLabel(),
                              inputs, op.launchShape(), /*sites=*/false, inPlace);
    group.replaceAllUsesWith(replacement);
    group.erase();
  }

  void outlineRows(dist::KernelGroupOp group) {
    OpBuilder b(group);
    Block &body = group.getBody().front();
    bool isNew;
    std::string name = nameFor(keyOf(group), group.getLabel(), isNew);
    if (isNew)
      codegen::buildRowKernel(kernelModule, name, group);
    int64_t rows = cast<lm::RowKernelOpInterface>(body.front()).getRows();
    int64_t blocks = (rows + codegen::blockRows - 1) / codegen::blockRows;
    SmallVector<Type> types;
    for (Value value : body.getTerminator()->getOperands()) {
      auto type = cast<RankedTensorType>(value.getType());
      types.push_back(
          codegen::isColumnSum(value)
              ? RankedTensorType::get({blocks, type.getShape().back()}, type.getElementType())
              : type);
    }
    bool sites = llvm::any_of(body.without_terminator(), [](Operation &op) {
      return cast<lm::RowKernelOpInterface>(op).drawsRandom();
    });
    auto rowsLaunch = launch(b, group.getLoc(), types, name, group.getLabel(), group.getInputs(),
                             {blocks, 1}, sites, codegen::inPlaceInputs(group));
    for (auto [old, now, value] : llvm::zip_equal(group.getResults(), rowsLaunch.getResults(),
                                                  body.getTerminator()->getOperands()))
      old.replaceAllUsesWith(codegen::isColumnSum(value) ? addUp(b, old, now, blocks) : now);
    group.erase();
  }

  /// The sum of the partial rows of all blocks.
  Value addUp(OpBuilder &b, Value old, Value partial, int64_t blocks) {
    int64_t columns = cast<RankedTensorType>(old.getType()).getShape().back();
    std::string key = "column_sum " + std::to_string(blocks) + "x" + std::to_string(columns);
    bool isNew;
    std::string name = nameFor(key, "column_sum", isNew);
    if (isNew)
      sumShapes[key] = codegen::buildColumnSum(kernelModule, name, blocks, columns);
    return launch(b, old.getLoc(), old.getType(), name, "column_sum", partial,
                  sumShapes.lookup(key), /*sites=*/false, {})
        .getResult(0);
  }

  ModuleOp kernelModule;
  llvm::StringMap<std::string> names;
  llvm::StringMap<kernel::LaunchShape> sumShapes;
};

} // namespace
} // namespace ftlm
