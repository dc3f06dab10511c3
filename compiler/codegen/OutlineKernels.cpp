// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/Passes.h"
#include "compiler/codegen/RowKernel.h"
#include "compiler/codegen/SpecialKernels.h"
#include "dialects/lm/Lm.h"

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
  OpPrintingFlags flags;
  flags.useLocalScope().skipRegions(false).elideLargeElementsAttrs();
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
    module.walk([&](dist::KernelGroupOp group) { outline(group); });
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

  void outline(dist::KernelGroupOp group) {
    OpBuilder b(group);
    Operation *first = &group.getBody().front().front();
    bool isNew;
    std::string key = keyOf(group);
    std::string name = nameFor(key, group.getLabel(), isNew);
    if (codegen::isSpecialOp(first)) {
      if (isNew)
        shapes[key] = codegen::buildSpecialKernel(kernelModule, name, first);
      codegen::LaunchShape shape = shapes.lookup(key);
      auto launch =
          dist::LaunchOp::create(b, group.getLoc(), group.getResultTypes(), name, group.getLabel(),
                                 group.getInputs(), shape.units, shape.grain, false, nullptr);
      group.replaceAllUsesWith(launch);
      group.erase();
      return;
    }
    if (isNew)
      codegen::buildRowKernel(kernelModule, name, group);
    int64_t rows = codegen::rowsOf(first);
    int64_t blocks = (rows + codegen::blockRows - 1) / codegen::blockRows;
    auto yield = cast<dist::YieldOp>(group.getBody().front().getTerminator());
    SmallVector<Type> types;
    for (Value value : yield.getOperands()) {
      auto type = cast<RankedTensorType>(value.getType());
      types.push_back(
          codegen::isColumnSum(value.getDefiningOp())
              ? RankedTensorType::get({blocks, type.getShape().back()}, type.getElementType())
              : type);
    }
    bool random = llvm::any_of(group.getBody().front(),
                               [](Operation &op) { return codegen::hasRandom(&op); });
    auto launch = dist::LaunchOp::create(b, group.getLoc(), types, name, group.getLabel(),
                                         group.getInputs(), blocks, 1, random, inPlace(group));
    for (auto [old, now, value] :
         llvm::zip_equal(group.getResults(), launch.getResults(), yield.getOperands())) {
      if (!codegen::isColumnSum(value.getDefiningOp())) {
        old.replaceAllUsesWith(now);
        continue;
      }
      int64_t columns = cast<RankedTensorType>(old.getType()).getShape().back();
      std::string sumKey = "column_sum " + std::to_string(blocks) + "x" + std::to_string(columns);
      bool isNewSum;
      std::string sumName = nameFor(sumKey, "column_sum", isNewSum);
      if (isNewSum)
        shapes[sumKey] = codegen::buildColumnSum(kernelModule, sumName, blocks, columns);
      codegen::LaunchShape shape = shapes.lookup(sumKey);
      auto sum = dist::LaunchOp::create(b, group.getLoc(), old.getType(), sumName, "column_sum",
                                        now, shape.units, shape.grain, false, nullptr);
      old.replaceAllUsesWith(sum.getResult(0));
    }
    group.erase();
  }

  /// For each result the input that it may take over: one of the same type that is read row by row,
  /// in no later phase than the one in which the result is written. Groups without reductions have
  /// one phase; a cross-entropy's gradient is written in the last.
  DenseI64ArrayAttr inPlace(dist::KernelGroupOp group) {
    Block &body = group.getBody().front();
    bool onePhase =
        llvm::none_of(body, [](Operation &op) { return isa<lm::NormOp, lm::CrossEntropyOp>(op); });
    auto yield = cast<dist::YieldOp>(body.getTerminator());
    SmallVector<int64_t> result;
    llvm::SmallDenseSet<int64_t> taken;
    for (Value value : yield.getOperands()) {
      int64_t found = -1;
      Operation *op = value.getDefiningOp();
      bool last = (onePhase && isa<lm::ActivationOp, lm::ActivationGradOp, lm::AddOp, lm::DropoutOp,
                                   lm::NormDataGradOp, lm::CrossEntropyGradOp>(op)) ||
                  isa<lm::CrossEntropyGradOp>(op);
      if (last && value == op->getResult(0))
        for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
          bool rowWise = llvm::none_of(argument.getUsers(), [](Operation *user) {
            return isa<lm::EmbeddingOp, lm::TakePositionOp>(user);
          });
          if (rowWise && argument.getType() == value.getType() && !taken.contains(i) &&
              onlyResultBefore(group, value)) {
            found = static_cast<int64_t>(i);
            taken.insert(found);
            break;
          }
        }
      result.push_back(found);
    }
    return DenseI64ArrayAttr::get(&getContext(), result);
  }

  /// With a second phase (norm_data_grad's sums come first), a result may be written over an input
  /// only when no other value of a later phase reads that input: true when every other result is of
  /// the same phase or a sum.
  bool onlyResultBefore(dist::KernelGroupOp group, Value value) {
    Block &body = group.getBody().front();
    bool hasSums = llvm::any_of(body, [](Operation &op) { return isa<lm::NormDataGradOp>(op); });
    if (!hasSums)
      return true;
    // Written in the second phase exactly when it depends on a norm_data_grad.
    SmallVector<Value> work{value};
    while (!work.empty()) {
      Operation *op = work.pop_back_val().getDefiningOp();
      if (!op)
        continue;
      if (isa<lm::NormDataGradOp>(op))
        return true;
      llvm::append_range(work, op->getOperands());
    }
    return false;
  }

  ModuleOp kernelModule;
  llvm::StringMap<std::string> names;
  llvm::StringMap<codegen::LaunchShape> shapes;
};

} // namespace
} // namespace ftlm
