// SPDX-License-Identifier: Apache-2.0
// What an op over rows sees while the kernel of its group is written: the row, its chunks of 16
// columns, numbers of the row, totals of reductions. lm::RowKernelOpInterface says which op may ask
// for what; compiler/codegen implements it once for all ops, so that loops, tails and folds stand
// in one place.
#pragma once

#include "dialects/kernel/KernelBuilder.h"

namespace ftlm::kernel {

/// How an op reaches an operand, or what a result is.
enum class Access {
  Row,     // element (row, column), for the chunk at hand
  Number,  // one f32 a row
  Integer, // one i32 a row, not negative
  Column,  // one f32 a column, the same for all rows
  Address, // anywhere, by address: tables, other rows
  Sum      // results only: one f32 a column, summed over the rows
};

/// A sum or maximum over the columns of a row. Reductions of pass 0 need only the operands, those
/// of pass n may use the totals of earlier passes.
struct Reduction {
  bool maximum;
  unsigned pass;
};

/// How a launch is cut up: independent units of work, and how many of them a thread should get.
struct LaunchShape {
  int64_t units, grain;
};

class RowEmitter {
public:
  explicit RowEmitter(KernelBuilder &builder) : k(builder) {}
  virtual ~RowEmitter() = default;

  KernelBuilder &k;

  /// The number of the row (i64), and the columns of a row.
  virtual mlir::Value row() = 0;
  virtual int64_t columns() = 0;
  /// The chunk of a value with Access::Row.
  virtual mlir::Value chunk(mlir::Value value, Chunk at) = 0;
  /// The row's number of a value with Access::Number, f32.
  virtual mlir::Value number(mlir::Value value) = 0;
  /// The row's number of a value with Access::Integer, i64.
  virtual mlir::Value integer(mlir::Value value) = 0;
  /// The chunk of a value with Access::Column.
  virtual mlir::Value column(mlir::Value value, Chunk at) = 0;
  /// Where a value with Access::Address (or Row, for elements of this row) lies.
  virtual mlir::Value address(mlir::Value value) = 0;
  /// The total of a reduction of an earlier pass.
  virtual mlir::Value total(mlir::Operation *op, unsigned reduction) = 0;
  /// Gives the row's number of a result with Access::Number.
  virtual void setNumber(mlir::Value result, mlir::Value number) = 0;
  /// The global number of a random site of this layer, i64.
  virtual mlir::Value site(int64_t site) = 0;

  /// The number of a value with Access::Number in all lanes.
  mlir::Value splatNumber(mlir::Value value) { return k.splat(number(value)); }
  /// The element (row, first column of the chunk) of a tensor with `columns` columns.
  mlir::Value at(Chunk chunk) { return k.addI(k.mulI(row(), k.index(columns())), chunk.column); }
};

} // namespace ftlm::kernel
