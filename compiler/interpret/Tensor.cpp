// SPDX-License-Identifier: Apache-2.0
#include "compiler/interpret/Tensor.h"

#include "llvm/ADT/APFloat.h"

#include <cassert>

using namespace mlir;

namespace ftlm::interpret {

Tensor Tensor::zeros(RankedTensorType type) {
  Tensor tensor;
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  auto count = static_cast<size_t>(type.getNumElements());
  if (isa<FloatType>(type.getElementType()))
    tensor.floats.resize(count);
  else
    tensor.integers.resize(count);
  return tensor;
}

Tensor Tensor::ofFloats(ArrayRef<int64_t> shape, std::vector<double> floats) {
  Tensor tensor{llvm::to_vector(shape), std::move(floats), {}};
  assert(tensor.size() == static_cast<int64_t>(tensor.floats.size()));
  return tensor;
}

Tensor Tensor::ofIntegers(ArrayRef<int64_t> shape, std::vector<int64_t> integers) {
  Tensor tensor{llvm::to_vector(shape), {}, std::move(integers)};
  assert(tensor.size() == static_cast<int64_t>(tensor.integers.size()));
  return tensor;
}

int64_t Tensor::rows() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    rows *= shape[i];
  return rows;
}

bool Tensor::fits(RankedTensorType type) const {
  bool isFloat = isa<FloatType>(type.getElementType());
  auto count = static_cast<size_t>(type.getNumElements());
  return type.getShape() == ArrayRef<int64_t>(shape) && floats.size() == (isFloat ? count : 0) &&
         integers.size() == (isFloat ? 0 : count);
}

void roundToType(Tensor &tensor, RankedTensorType type) {
  auto format = dyn_cast<FloatType>(type.getElementType());
  if (!format || format.getWidth() >= 32)
    return;
  for (double &value : tensor.floats) {
    llvm::APFloat number(value);
    bool losesInfo = false;
    number.convert(format.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    value = number.convertToDouble();
  }
}

} // namespace ftlm::interpret
