// SPDX-License-Identifier: Apache-2.0
#include "dialects/plan/Plan.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ftlm::planir;

#include "dialects/plan/PlanDialect.cpp.inc"
#include "dialects/plan/PlanEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/plan/PlanTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/PlanOps.cpp.inc"
      >();
}

SmallVector<Value> ftlm::planir::writesOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case([](KernelOp o) {
        SmallVector<Value> result;
        for (int64_t i : o.getWrites())
          result.push_back(o.getArguments()[i]);
        return result;
      })
      .Case([](GemmOp o) { return SmallVector<Value>{o.getC()}; })
      .Case([](AttentionOp o) {
        return SmallVector<Value>{o.getOut(), o.getLse(), o.getWorkspace()};
      })
      .Case([](AttentionGradOp o) {
        return SmallVector<Value>{o.getDQ(), o.getDK(), o.getDV(), o.getWorkspace()};
      })
      .Case([](CopyOp o) { return SmallVector<Value>{o.getDestination()}; })
      .Case([](ZeroOp o) { return SmallVector<Value>{o.getBuffer()}; })
      .Case([](AccumulateOp o) {
        SmallVector<Value> result(o.getLevels());
        result.push_back(o.getSource());
        return result;
      })
      .Default([](Operation *) { return SmallVector<Value>(); });
}

SmallVector<Value> ftlm::planir::readsOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case([](KernelOp o) {
        SmallVector<Value> result;
        for (auto [i, argument] : llvm::enumerate(o.getArguments())) {
          if (!llvm::is_contained(o.getWrites(), static_cast<int64_t>(i)))
            result.push_back(argument);
        }
        return result;
      })
      .Case([](GemmOp o) {
        SmallVector<Value> result{o.getA(), o.getB()};
        if (o.getBias())
          result.push_back(o.getBias());
        return result;
      })
      .Case([](AttentionOp o) {
        SmallVector<Value> result{o.getQ(), o.getK(), o.getV()};
        llvm::append_range(result, o.getRandom());
        return result;
      })
      .Case([](AttentionGradOp o) {
        SmallVector<Value> result{o.getDOut(), o.getQ(),   o.getK(),
                                  o.getV(),    o.getOut(), o.getLse()};
        llvm::append_range(result, o.getRandom());
        return result;
      })
      .Case([](CopyOp o) { return SmallVector<Value>{o.getSource()}; })
      .Case([](AccumulateOp o) { return SmallVector<Value>{o.getSource()}; })
      .Default([](Operation *) { return SmallVector<Value>(); });
}

int64_t ftlm::planir::bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * (tensor.getElementTypeBitWidth() / 8);
}

Value ftlm::planir::rootOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>())
    buffer = view.getSource();
  return buffer;
}
