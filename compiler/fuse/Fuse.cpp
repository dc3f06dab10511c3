// SPDX-License-Identifier: Apache-2.0
#include "compiler/fuse/Passes.h"
#include "dialects/dist/Dist.h"
#include "dialects/lm/Lm.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_DISTFUSE
#include "compiler/fuse/Passes.h.inc"

namespace {

/// Ops that become one kernel; it stands where the first of them stood.
struct Group {
  llvm::SetVector<Operation *> ops;
  int64_t rows, columns;
};

bool isColumnSum(Operation *op) {
  auto row = dyn_cast<lm::RowKernelOpInterface>(op);
  return row && row->getNumResults() > 0 && row.resultAccess(0) == kernel::Access::Sum;
}

struct DistFusePass : impl::DistFuseBase<DistFusePass> {
  void runOnOperation() override {
    SmallVector<Block *> blocks;
    for (auto function : getOperation().getOps<FunctionOpInterface>())
      function.walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks)
      fuseBlock(*block);
  }

  void fuseBlock(Block &block) {
    std::vector<Group> open;
    DenseMap<Operation *, unsigned> order;
    for (auto [i, op] : llvm::enumerate(block))
      order[&op] = static_cast<unsigned>(i);
    for (Operation &op : block) {
      if (isa<lm::KernelOpInterface>(op)) {
        open.push_back({});
        open.back().ops.insert(&op);
        open.back().rows = -1;
      } else if (auto row = dyn_cast<lm::RowKernelOpInterface>(op)) {
        int64_t rows = row.getRows(), columns = row.getColumns();
        auto joins = [&](const Group &group) {
          return group.rows == rows && group.columns == columns && canJoin(group, &op, order);
        };
        // The latest group first: it is the likeliest to have its operands in registers.
        auto found = std::find_if(open.rbegin(), open.rend(), joins);
        if (found == open.rend()) {
          open.push_back({{}, rows, columns});
          found = open.rbegin();
        } else {
          ++fused;
        }
        found->ops.insert(&op);
      }
    }
    for (Group &group : open)
      make(group);
    groups += static_cast<unsigned>(open.size());
  }

  /// Shares the op a value with the group, and are all its operands known where the group stands?
  bool canJoin(const Group &group, Operation *op, const DenseMap<Operation *, unsigned> &order) {
    unsigned position = order.lookup(group.ops.front());
    bool shares = false;
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (def && group.ops.contains(def)) {
        // A sum over rows is complete only after the kernel.
        if (isColumnSum(def))
          return false;
        shares = true;
        continue;
      }
      // Parameters can be read anywhere: their use moves up with the op.
      if (def && !isa<lm::UseOp>(def) && order.lookup(def) >= position)
        return false;
      auto type = cast<RankedTensorType>(operand.getType());
      if (type.getRank() > 1 && type.getShape().back() == group.columns)
        shares |= llvm::any_of(group.ops, [&](Operation *member) {
          return llvm::is_contained(member->getOperands(), operand);
        });
    }
    return shares;
  }

  void make(Group &group) {
    Operation *first = group.ops.front();
    // Uses of parameters that members need, and which stand after the first member, go before it.
    for (Operation *op : group.ops)
      for (Value operand : op->getOperands())
        if (auto use = operand.getDefiningOp<lm::UseOp>(); use && !use->isBeforeInBlock(first))
          use->moveBefore(first);
    llvm::SetVector<Value> inputs;
    SmallVector<Value> results;
    std::string label;
    for (Operation *op : group.ops) {
      label += (label.empty() ? "" : "+") + op->getName().stripDialect().str();
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp(); !def || !group.ops.contains(def))
          inputs.insert(operand);
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(),
                         [&](Operation *user) { return !group.ops.contains(user); }))
          results.push_back(result);
    }
    OpBuilder b(first);
    auto kernel = dist::KernelGroupOp::create(b, first->getLoc(), ValueRange(results).getTypes(),
                                              b.getStringAttr(label), inputs.getArrayRef());
    Block *body = b.createBlock(&kernel.getBody());
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
    for (Operation *op : group.ops)
      b.clone(*op, mapping);
    SmallVector<Value> yielded;
    for (auto [result, outside] : llvm::zip_equal(results, kernel.getResults())) {
      yielded.push_back(mapping.lookup(result));
      result.replaceAllUsesWith(outside);
    }
    dist::YieldOp::create(b, first->getLoc(), yielded);
    for (Operation *op : llvm::reverse(group.ops))
      op->erase();
  }
};

} // namespace
} // namespace ftlm
