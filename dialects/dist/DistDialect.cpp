// SPDX-License-Identifier: Apache-2.0
#include "dialects/dist/Dist.h"
#include "dialects/plan/InstructionBuilder.h"
#include "dialects/plan/Plan.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

#include "dialects/dist/DistDialect.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.cpp.inc"

void ftlm::dist::DistDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/DistOps.cpp.inc"
      >();
}

void ftlm::dist::LaunchOp::emitInstructions(planir::InstructionBuilder &builder) {
  SmallVector<Value> arguments;
  for (Value input : getInputs())
    arguments.push_back(builder.buffer(input));
  SmallVector<int64_t> writes;
  for (Value result : getResults()) {
    writes.push_back(static_cast<int64_t>(arguments.size()));
    arguments.push_back(builder.buffer(result));
  }
  OpBuilder &b = builder.b;
  DenseI64ArrayAttr scalars;
  if (getSites())
    scalars = b.getDenseI64ArrayAttr({lm::globalSite(0, lm::layerOf(*this))});
  planir::KernelOp::create(builder.b, builder.nameOf(*this, getLabel()), getKernel(), arguments,
                           writes, static_cast<int64_t>(getUnits()),
                           static_cast<int64_t>(getGrain()), scalars);
}
