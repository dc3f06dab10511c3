// SPDX-License-Identifier: Apache-2.0
#include "dialects/dist/Dist.h"

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
