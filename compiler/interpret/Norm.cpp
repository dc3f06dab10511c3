// SPDX-License-Identifier: Apache-2.0
// Layer norm and RMS norm over the last dimension. The gradients use the statistics that they are
// given, as the kernels do, so that wrong statistics are not hidden.
#include "compiler/interpret/Meanings.h"
#include "dialects/lm/Lm.h"

#include <cmath>

using namespace mlir;

namespace ftlm::interpret {
namespace {

LogicalResult norm(Operation *op, ArrayRef<const Tensor *> operands,
                   MutableArrayRef<Tensor> results, const Context &) {
  auto normOp = cast<lm::NormOp>(op);
  const Tensor &x = *operands[0], &gain = *operands[1];
  const Tensor *bias = operands.size() > 2 ? operands[2] : nullptr;
  Tensor &y = results[0], &means = results[1], &rstds = results[2];
  auto width = static_cast<double>(x.columns());
  for (int64_t row = 0; row < x.rows(); ++row) {
    double mean = 0, squares = 0;
    if (normOp.getKind() == lm::NormKind::LayerNorm)
      for (int64_t c = 0; c < x.columns(); ++c)
        mean += x.at(row, c) / width;
    for (int64_t c = 0; c < x.columns(); ++c)
      squares += (x.at(row, c) - mean) * (x.at(row, c) - mean) / width;
    double rstd = 1 / std::sqrt(squares + normOp.getEpsilon());
    means[row] = mean;
    rstds[row] = rstd;
    for (int64_t c = 0; c < x.columns(); ++c)
      y.at(row, c) = (x.at(row, c) - mean) * rstd * gain[c] + (bias ? (*bias)[c] : 0);
  }
  return success();
}

LogicalResult normDataGrad(Operation *op, ArrayRef<const Tensor *> operands,
                           MutableArrayRef<Tensor> results, const Context &) {
  bool centred = cast<lm::NormDataGradOp>(op).getKind() == lm::NormKind::LayerNorm;
  const Tensor &adjoint = *operands[0], &x = *operands[1], &gain = *operands[2];
  const Tensor &means = *operands[3], &rstds = *operands[4];
  auto width = static_cast<double>(x.columns());
  for (int64_t row = 0; row < x.rows(); ++row) {
    auto n = [&](int64_t c) { return (x.at(row, c) - means[row]) * rstds[row]; };
    auto d = [&](int64_t c) { return adjoint.at(row, c) * gain[c]; };
    double meanD = 0, meanDn = 0;
    for (int64_t c = 0; c < x.columns(); ++c) {
      meanD += centred ? d(c) / width : 0;
      meanDn += d(c) * n(c) / width;
    }
    for (int64_t c = 0; c < x.columns(); ++c)
      results[0].at(row, c) = rstds[row] * (d(c) - meanD - n(c) * meanDn);
  }
  return success();
}

LogicalResult normGainGrad(Operation *, ArrayRef<const Tensor *> operands,
                           MutableArrayRef<Tensor> results, const Context &) {
  const Tensor &adjoint = *operands[0], &x = *operands[1];
  const Tensor &means = *operands[2], &rstds = *operands[3];
  for (int64_t row = 0; row < x.rows(); ++row)
    for (int64_t c = 0; c < x.columns(); ++c)
      results[0][c] += adjoint.at(row, c) * (x.at(row, c) - means[row]) * rstds[row];
  return success();
}

} // namespace

void addNormMeanings(MeaningTable &table) {
  table[lm::NormOp::getOperationName()] = norm;
  table[lm::NormDataGradOp::getOperationName()] = normDataGrad;
  table[lm::NormGainGradOp::getOperationName()] = normGainGrad;
}

} // namespace ftlm::interpret
