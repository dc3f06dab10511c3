// SPDX-License-Identifier: Apache-2.0
// Emits the pieces that generated kernels are made of: addresses, masked chunks of 16 lanes, loops,
// folds and counted random numbers. A kernel is a function `(arguments: ptr to ptrs, scalars: ptr,
// begin: i64, end: i64)`. Everything is written with explicit vectors of 16 lanes, so that AVX2 and
// AVX-512 give the same bits.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ftlm::kernel {

/// Lanes of every vector, whatever the processor.
inline constexpr int64_t lanes = 16;
/// Elements that a thread should get of an elementwise kernel.
inline constexpr int64_t elementGrain = 16384;

/// A chunk of a row: its first column and, in the last chunk of a row that 16 does not divide,
/// which lanes count.
struct Chunk {
  mlir::Value column; // i64
  mlir::Value mask;   // vector<16xi1>, or null when all lanes count
};

class KernelBuilder {
public:
  /// Starts a function named `name` in `kernels`; ends it when destroyed.
  KernelBuilder(mlir::ModuleOp kernels, llvm::StringRef name);
  ~KernelBuilder();

  mlir::Value begin, end; // i64: the units to do

  mlir::ImplicitLocOpBuilder b;

  /// The address of argument `index`.
  mlir::Value argument(int64_t index);
  /// Scalar `index`, i64.
  mlir::Value scalar(int64_t index);

  mlir::Value index(int64_t value);     // i64 constant
  mlir::Value real(double value);       // f32 constant
  mlir::Value splat(double value);      // vector<16xf32> constant
  mlir::Value splat(mlir::Value value); // broadcast of an f32, i32
  mlir::Value splatInt(int64_t value);  // vector<16xi32> constant
  mlir::Type vectorType() const;        // vector<16xf32>
  mlir::Type intVectorType() const;     // vector<16xi32>

  // i64 arithmetic
  mlir::Value addI(mlir::Value l, mlir::Value r);
  mlir::Value mulI(mlir::Value l, mlir::Value r);
  mlir::Value divI(mlir::Value l, mlir::Value r);
  mlir::Value remI(mlir::Value l, mlir::Value r);
  mlir::Value minI(mlir::Value l, mlir::Value r);
  // f32, scalars or vectors
  mlir::Value add(mlir::Value l, mlir::Value r);
  mlir::Value sub(mlir::Value l, mlir::Value r);
  mlir::Value mul(mlir::Value l, mlir::Value r);
  mlir::Value div(mlir::Value l, mlir::Value r);

  /// The address of element `element` (i64) of an array of `type` at `base`.
  mlir::Value address(mlir::Value base, mlir::Value element, mlir::Type type);
  mlir::Value load(mlir::Value base, mlir::Value element, mlir::Type type);
  void store(mlir::Value value, mlir::Value base, mlir::Value element);
  /// 16 elements of an f32 array from `element` on; lanes outside the mask are 0 and are not
  /// touched.
  mlir::Value loadChunk(mlir::Value base, mlir::Value element, mlir::Value mask);
  void storeChunk(mlir::Value value, mlir::Value base, mlir::Value element, mlir::Value mask);

  /// `for (i = from; i < to; i += step)` carrying values; the body returns the next ones.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value from, mlir::Value to, int64_t step, mlir::ValueRange carried,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
  /// A loop over the chunks of `columns` columns; the last one is masked where 16 does not divide.
  llvm::SmallVector<mlir::Value>
  chunkLoop(int64_t columns, mlir::ValueRange carried,
            llvm::function_ref<llvm::SmallVector<mlir::Value>(Chunk, mlir::ValueRange)> body);
  /// The chunks of the elements [from, to), where only the last may be short.
  llvm::SmallVector<mlir::Value>
  rangeLoop(mlir::Value from, mlir::Value to, mlir::ValueRange carried,
            llvm::function_ref<llvm::SmallVector<mlir::Value>(Chunk, mlir::ValueRange)> body);

  /// The sum (or maximum) of the lanes, folded in halves: 8, 4, 2, 1.
  mlir::Value fold(mlir::Value vector, bool maximum = false);

  /// For each lane: is element `first + lane` of `example` kept? Philox4x32-10 as
  /// dialects/lm/LmOps.td says. `random` addresses {seed, step}, i64 [2]; `site` is i64.
  mlir::Value keepMask(mlir::Value random, mlir::Value site, mlir::Value example, mlir::Value first,
                       double rate);

  mlir::Value zeroVector() { return splat(0.0); }
  mlir::Value exp(mlir::Value x);
  /// 0, 1, .. 15 as i32.
  mlir::Value laneNumbers();

  /// Cuts the kernel's units, strips of `strip` columns each, and runs `body` for the columns
  /// [from, to) of every strip.
  void stripLoop(int64_t strip, int64_t columns,
                 llvm::function_ref<void(mlir::Value from, mlir::Value to)> body);

private:
  /// The lanes below `count` (i64).
  mlir::Value maskBelow(mlir::Value count);

  mlir::func::FuncOp function;
};

} // namespace ftlm::kernel
