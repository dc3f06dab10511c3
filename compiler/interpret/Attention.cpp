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

/// Where things lie in the operands of one op, and its attributes. Without keys of their own the
/// queries, keys and values of all heads lie behind one another in the queries.
template <typename Op>
struct Layout {
  Layout(Op op, const Context &context)
      : queries(context.valueOf(op.getQueries())),
        keys(op.getKeys() ? context.valueOf(op.getKeys()) : queries),
        values(op.getValues() ? context.valueOf(op.getValues()) : queries), joint(!op.getKeys()),
        batch(queries.dim(0)), time(queries.dim(1)), heads(op.getHeads()), kvHeads(op.getKvHeads()),
        size(queries.columns() / (joint ? heads + 2 * kvHeads : heads)), scale(op.getScale()),
        rate(op.getDropout().value_or(0)) {
    if (rate == 0)
      return;
    site = lm::globalSite(*op.getSite(), context.layerOf(op));
    draw = drawOf(context.valueOf(op.getRandom()), &context.valueOf(op.getExamples()));
  }

  int64_t row(int64_t b, int64_t t) const { return b * time + t; }
  int64_t query(int64_t h, int64_t d) const { return h * size + d; }
  int64_t key(int64_t h, int64_t d) const {
    return ((joint ? heads : 0) + h / (heads / kvHeads)) * size + d;
  }
  int64_t value(int64_t h, int64_t d) const { return key(h, d) + (joint ? kvHeads * size : 0); }
  int64_t lse(int64_t b, int64_t h, int64_t t) const { return (b * heads + h) * time + t; }

  double score(int64_t b, int64_t h, int64_t t, int64_t s) const {
    double sum = 0;
    for (int64_t d = 0; d < size; ++d)
      sum += queries.at(row(b, t), query(h, d)) * keys.at(row(b, s), key(h, d));
    return scale * sum;
  }
  /// What dropout multiplies the probability of position s for position t by.
  double factor(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (rate == 0)
      return 1;
    return dropoutFactor(draw, rate, site, draw.examples[static_cast<size_t>(b)],
                         (h * time + t) * time + s);
  }

  const Tensor &queries, &keys, &values;
  bool joint;
  int64_t batch, time, heads, kvHeads, size;
  double scale, rate;
  int64_t site = 0;
  Draw draw;
};

LogicalResult attention(Operation *op, ArrayRef<const Tensor *>, MutableArrayRef<Tensor> results,
                        const Context &context) {
  Layout at(cast<lm::AttentionOp>(op), context);
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
                p * at.factor(b, h, t, s) * at.values.at(at.row(b, s), at.value(h, d));
        }
      }
  return success();
}

/// With P the probabilities and M dropout's factors: dV = (M P)^T dO; dP = M (dO V^T); dS = P (dP -
/// rowsum(dO O)); dQ = scale dS K; dK = scale dS^T Q. The row sum equals that of P dP.
LogicalResult attentionGrad(Operation *op, ArrayRef<const Tensor *> operands,
                            MutableArrayRef<Tensor> results, const Context &context) {
  const Tensor &adjoint = *operands[0], &output = *operands[1], &lse = *operands[2];
  Layout at(cast<lm::AttentionGradOp>(op), context);
  Tensor &dQueries = results[0];
  Tensor &dKeys = at.joint ? results[0] : results[1];
  Tensor &dValues = at.joint ? results[0] : results[2];
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
            dp += factor * dOut * at.values.at(at.row(b, s), at.value(h, d));
            dValues.at(at.row(b, s), at.value(h, d)) += factor * p * dOut;
          }
          double dScore = at.scale * p * (dp - delta);
          for (int64_t d = 0; d < at.size; ++d) {
            dQueries.at(at.row(b, t), at.query(h, d)) +=
                dScore * at.keys.at(at.row(b, s), at.key(h, d));
            dKeys.at(at.row(b, s), at.key(h, d)) +=
                dScore * at.queries.at(at.row(b, t), at.query(h, d));
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
