// SPDX-License-Identifier: Apache-2.0
#include "dialects/lm/Lm.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialects/lm/LmDialect.cpp.inc"
#include "dialects/lm/LmEnums.cpp.inc"
#include "dialects/lm/LmInterfaces.cpp.inc"

/// A float attribute as a bare number of type f64.
static ParseResult parseBareF64(AsmParser &parser, FloatAttr &number) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  number = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

static void printBareF64(AsmPrinter &printer, FloatAttr number) {
  printer << number.getValue();
}

#define GET_ATTRDEF_CLASSES
#include "dialects/lm/LmAttributes.cpp.inc"

void ftlm::lm::LmDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/lm/LmOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/lm/LmAttributes.cpp.inc"
      >();
}

std::string ftlm::lm::memberName(llvm::StringRef name, int64_t layer) {
  auto [head, tail] = name.split('*');
  if (head.size() == name.size())
    return name.str();
  return (head + std::to_string(layer) + tail).str();
}
