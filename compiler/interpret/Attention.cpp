// SPDX-License-Identifier: Apache-2.0
// Causal self-attention. B examples, T positions, H query heads of size D that share K key and
// value heads.
#include "compiler/interpret/Interpreter.h"
#include "dialects/lm/Lm.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ftlm::interpret {
namespace {

/// Where things lie in the operands of one op, and its attributes. Queries, keys and values are
/// three tensors, or lie behind one another in the rows of one.
template <typename Op>
struct Layout {
  /// `operands` begins with the queries.
  Layout(Op op, ArrayRef<const Tensor *> operands, const Context &context)
      : batch(operands[0]->dim(0)), time(operands[0]->dim(1)), heads(op.getHeads()),
        kvHeads(op.getKvHeads()), packed(!op.getKeys()),
        size(operands[0]->columns() / (packed ? heads + 2 * kvHeads : heads)),
        scale(op.getScaleAttr().getValueAsDouble()),
        rate(op.getDropout() ? op.getDropoutAttr().getValueAsDouble() : 0),
        site(op.getSite() ? lm::globalSite(*op.getSite(), layerOf(op, context)) : 0),
        q(operands[0]), k(packed ? q : operands[1]), v(packed ? q : operands[2]) {
    if (rate > 0) {
      const Tensor &random = *operands[packed ? 1 : 3];
      draw = {random.integer(0), random.integer(1)};
      examples = operands[packed ? 2 : 4];
    }
  }

  int64_t row(int64_t b, int64_t t) const { return b * time + t; }
  int64_t query(int64_t h, int64_t d) const { return h * size + d; }
  int64_t key(int64_t h, int64_t d) const {
    return ((packed ? heads : 0) + h / (heads / kvHeads)) * size + d;
  }
  int64_t value(int64_t h, int64_t d) const { return key(h, d) + (packed ? kvHeads * size : 0); }
  int64_t lse(int64_t b, int64_t h, int64_t t) const { return (b * heads + h) * time + t; }

  double score(int64_t b, int64_t h, int64_t t, int64_t s) const {
    double sum = 0;
    for (int64_t d = 0; d < size; ++d)
      sum += q->at(row(b, t), query(h, d)) * k->at(row(b, s), key(h, d));
    return scale * sum;
  }
  /// What dropout multiplies the probability of position s for position t by.
  double factor(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (rate == 0)
      return 1;
    return dropoutFactor(draw, rate, site, examples->integer(b), (h * time + t) * time + s);
  }

  int64_t batch, time, heads, kvHeads;
  bool packed;
  int64_t size;
  double scale, rate;
  int64_t site;
  const Tensor *q, *k, *v;
  Draw draw;
  const Tensor *examples = nullptr;
};

LogicalResult attention(Operation *op, ArrayRef<const Tensor *> operands,
                        MutableArrayRef<Tensor> results, const Context &context) {
  Layout at(cast<lm::AttentionOp>(op), operands, context);
  Tensor &out = results[0], &lse = results[1];
  for (int64_t b = 0; b < at.batch; ++b)
    for (int64_t h = 0; h < at.heads; ++h)
      for (int64_t t = 0; t < at.time; ++t) {
        std::vector<double> scores;
        for (int64_t s = 0; s <= t; ++s)
          scores.push_back(at.score(b, h, t, s));
        double largest = *std::max_element(scores.begin(), scores.end()), sum = 0;
        for (double score : scores)
          sum += std::exp(score - largest);
        lse[at.lse(b, h, t)] = largest + std::log(sum);
        for (int64_t s = 0; s <= t; ++s) {
          double p = std::exp(scores[static_cast<size_t>(s)] - largest) / sum;
          for (int64_t d = 0; d < at.size; ++d)
            out.at(at.row(b, t), at.query(h, d)) +=
                p * at.factor(b, h, t, s) * at.v->at(at.row(b, s), at.value(h, d));
        }
      }
  return success();
}

/// With P the probabilities and M dropout's factors: dV = (M P)^T dO; dP = M (dO V^T); dS = P (dP -
/// rowsum(dO O)); dQ = scale dS K; dK = scale dS^T Q. The row sum equals that of P dP.
LogicalResult attentionGrad(Operation *op, ArrayRef<const Tensor *> operands,
                            MutableArrayRef<Tensor> results, const Context &context) {
  const Tensor &adjoint = *operands[0], &output = *operands[1], &lse = *operands[2];
  Layout at(cast<lm::AttentionGradOp>(op), operands.drop_front(3), context);
  Tensor &dq = results[0], &dk = results[at.packed ? 0 : 1], &dv = results[at.packed ? 0 : 2];
  for (int64_t b = 0; b < at.batch; ++b)
    for (int64_t h = 0; h < at.heads; ++h)
      for (int64_t t = 0; t < at.time; ++t) {
        double delta = 0;
        for (int64_t d = 0; d < at.size; ++d)
          delta +=
              adjoint.at(at.row(b, t), at.query(h, d)) * output.at(at.row(b, t), at.query(h, d));
        for (int64_t s = 0; s <= t; ++s) {
          double p = std::exp(at.score(b, h, t, s) - lse[at.lse(b, h, t)]);
          double factor = at.factor(b, h, t, s), dp = 0;
          for (int64_t d = 0; d < at.size; ++d) {
            double dOut = adjoint.at(at.row(b, t), at.query(h, d));
            dp += factor * dOut * at.v->at(at.row(b, s), at.value(h, d));
            dv.at(at.row(b, s), at.value(h, d)) += factor * p * dOut;
          }
          double dScore = at.scale * p * (dp - delta);
          for (int64_t d = 0; d < at.size; ++d) {
            dq.at(at.row(b, t), at.query(h, d)) += dScore * at.k->at(at.row(b, s), at.key(h, d));
            dk.at(at.row(b, s), at.key(h, d)) += dScore * at.q->at(at.row(b, t), at.query(h, d));
          }
        }
      }
  return success();
}

} // namespace

void addAttentionMeanings(MeaningTable &table) {
  table[lm::AttentionOp::getOperationName()] = attention;
  table[lm::AttentionGradOp::getOperationName()] = attentionGrad;
}

} // namespace ftlm::interpret
