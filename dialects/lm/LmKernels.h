// SPDX-License-Identifier: Apache-2.0
// Pieces of kernels that ops of several families share. For the dialect's own sources only.
#pragma once

#include "dialects/kernel/KernelBuilder.h"
#include "dialects/lm/Lm.h"

namespace ftlm::lm {

/// An activation of 16 lanes, and its derivative.
mlir::Value emitActivation(kernel::KernelBuilder &k, Activation kind, mlir::Value x);
mlir::Value emitActivationSlope(kernel::KernelBuilder &k, Activation kind, mlir::Value x);

} // namespace ftlm::lm
