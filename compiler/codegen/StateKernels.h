// SPDX-License-Identifier: Apache-2.0
// Kernels on parameters, gradients and moments: what the update of a step and the sum over
// micro-batches run. Each call adds a function to the module of kernels if it is not there and
// returns its name. All are elementwise or sum in a fixed order.
#pragma once

#include "dialects/lm/Lm.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace ftlm::codegen {

/// Elements of a chunk whose squares are summed in fp32.
inline constexpr int64_t normChunk = 4096;

/// result = lhs + rhs; arguments (lhs, rhs, result), units are elements.
std::string addKernel(mlir::ModuleOp kernels);

/// Arguments (gradient, partials f32 [ceil(elements / 4096)]); a unit is a chunk.
std::string sumSquaresKernel(mlir::ModuleOp kernels, int64_t elements);

/// The root of the sum of the partials, added in fp64 in order; arguments (partials, norm f32 [1]),
/// one unit.
std::string normKernel(mlir::ModuleOp kernels, int64_t partials);

/// One update (dialects/lm/LmOps.td, lm.update); arguments (value, gradient, moment1, moment2,
/// hyper, norm), for sgd (value, gradient, hyper, norm). hyper f32 [8] is as in schema/plan.fbs.
/// Units are elements.
std::string updateKernel(mlir::ModuleOp kernels, lm::Optimizer rule, bool decay);

} // namespace ftlm::codegen
