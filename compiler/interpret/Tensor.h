// SPDX-License-Identifier: Apache-2.0
// A tensor of the reference interpreter: shape and elements, row-major. Floats of every width are
// held as float64, integers as int64. One of the two lists of elements is always empty.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

#include <vector>

namespace ftlm::interpret {

struct Tensor {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> floats;    // elements of a float tensor
  std::vector<int64_t> integers; // elements of an integer tensor

  /// Zeros in the shape of `type`, of its kind of element.
  static Tensor zeros(mlir::RankedTensorType type);
  static Tensor ofFloats(llvm::ArrayRef<int64_t> shape, std::vector<double> floats);
  static Tensor ofIntegers(llvm::ArrayRef<int64_t> shape, std::vector<int64_t> integers);

  int64_t dim(size_t i) const { return shape[i]; }
  /// The size of the last dimension; 1 for a scalar.
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  /// The number of elements divided by `columns`.
  int64_t rows() const;
  int64_t size() const { return rows() * columns(); }

  double &operator[](int64_t i) { return floats[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return floats[static_cast<size_t>(i)]; }
  /// The element of a matrix whose rows are all dimensions but the last.
  double &at(int64_t row, int64_t column) { return (*this)[row * columns() + column]; }
  double at(int64_t row, int64_t column) const { return (*this)[row * columns() + column]; }
  int64_t integer(int64_t i) const { return integers[static_cast<size_t>(i)]; }

  /// Whether shape and kind of element are those of `type`.
  bool fits(mlir::RankedTensorType type) const;
};

/// Rounds the elements to the nearest values that bf16 and fp16 have, ties to even. Wider types
/// keep them in float64: the oracle is exact where the format would only be less so.
void roundToType(Tensor &tensor, mlir::RankedTensorType type);

} // namespace ftlm::interpret
