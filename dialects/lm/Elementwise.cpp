// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/RowEmitter.h"
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmVerify.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;
using namespace ftlm::kernel;

SmallVector<Value> AddOp::buildGradient(OpBuilder &b, ValueRange adjoints, ArrayRef<bool> wanted) {
  return {adjoints[0], adjoints[0]};
}

Access AddOp::operandAccess(unsigned) {
  return Access::Row;
}
Value AddOp::emitChunk(unsigned, RowEmitter &row, Chunk chunk) {
  return row.k.add(row.chunk(getLhs(), chunk), row.chunk(getRhs(), chunk));
}
