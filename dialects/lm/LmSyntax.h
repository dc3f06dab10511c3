// SPDX-License-Identifier: Apache-2.0
// Pieces of syntax that ops of several families share. For the dialect's own sources only.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

namespace ftlm::lm {

/// A float attribute as a bare number of type f64.
inline mlir::ParseResult parseBareF64(mlir::OpAsmParser &parser, mlir::FloatAttr &attr) {
  double value;
  if (parser.parseFloat(value))
    return mlir::failure();
  attr = parser.getBuilder().getF64FloatAttr(value);
  return mlir::success();
}
inline void printBareF64(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::FloatAttr attr) {
  printer << attr.getValue();
}

} // namespace ftlm::lm
