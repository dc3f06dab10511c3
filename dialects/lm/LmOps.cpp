// SPDX-License-Identifier: Apache-2.0
// The generated part of the ops; what is written by hand lies in the files of the families.
#include "dialects/lm/Lm.h"
#include "dialects/lm/LmSyntax.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ftlm::lm;

#define GET_OP_CLASSES
#include "dialects/lm/LmOps.cpp.inc"
