// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/Placement.h"

using namespace mlir;

namespace ftlm {

StateKey keyOf(Operation *op, FlatSymbolRefAttr name) {
  return {name.getAttr(), lm::layerOf(op).value_or(-1)};
}

namespace {

/// Does nothing in `block` after `op` read the value?
bool isDone(Value value, Operation *op) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
    return here && (here == op || here->isBeforeInBlock(op));
  });
}

} // namespace

Placement::Placement(lm::ProgramOp program) {
  program.walk(
      [&](lm::UseOp use) { states[keyOf(use, use.getParamAttr())].push_back(use.getResult()); });
  program.walk([&](dist::LaunchOp launch) { place(launch); });
}

Value Placement::rootOf(Value value) const {
  auto found = roots.find(value);
  return found == roots.end() ? value : found->second;
}

Operation *Placement::lastUse(Value root) const {
  Operation *last = root.getDefiningOp();
  Block *block = root.getParentBlock();
  auto visit = [&](Value value) {
    for (Operation *user : value.getUsers()) {
      Operation *here = block->findAncestorOpInBlock(*user);
      if (here && !here->hasTrait<OpTrait::IsTerminator>() &&
          (!last || last->isBeforeInBlock(here)))
        last = here;
    }
  };
  visit(root);
  if (auto found = members.find(root); found != members.end())
    llvm::for_each(found->second, visit);
  return last;
}

void Placement::place(dist::LaunchOp launch) {
  if (!launch.getInPlace())
    return;
  for (auto [result, number] : llvm::zip_equal(launch.getResults(), *launch.getInPlace())) {
    if (number < 0)
      continue;
    Value input = launch.getInputs()[number];
    if (!mayTakeState(launch, result, input) && !mayTake(launch, input))
      continue;
    Value root = rootOf(input);
    roots[result] = root;
    SmallVector<Value> &list = members[root];
    if (list.empty())
      list.push_back(root);
    list.push_back(result);
  }
}

/// The next value of a parameter: assigned to the parameter that the input is, after everything
/// that reads it.
bool Placement::mayTakeState(dist::LaunchOp launch, Value result, Value input) const {
  auto use = input.getDefiningOp<lm::UseOp>();
  if (!use || !result.hasOneUse())
    return false;
  auto assign = dyn_cast<lm::AssignOp>(*result.user_begin());
  if (!assign || keyOf(assign, assign.getTargetAttr()) != keyOf(use, use.getParamAttr()))
    return false;
  return llvm::all_of(states.lookup(keyOf(use, use.getParamAttr())),
                      [&](Value value) { return isDone(value, launch); });
}

/// A value of this block that nothing reads after the launch, and that the launch reads once.
bool Placement::mayTake(dist::LaunchOp launch, Value input) const {
  Value root = rootOf(input);
  Operation *owner = root.getDefiningOp();
  if (!owner || owner->getBlock() != launch->getBlock() || isa<lm::UseOp>(owner))
    return false;
  if (llvm::count_if(launch.getInputs(), [&](Value other) { return rootOf(other) == root; }) != 1)
    return false;
  auto found = members.find(root);
  if (found == members.end())
    return isDone(root, launch);
  return llvm::all_of(found->second, [&](Value value) { return isDone(value, launch); });
}

} // namespace ftlm
