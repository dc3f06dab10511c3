// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Generate.h"

#include "runtime/device/Philox.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace ftlm {

int32_t sampleToken(std::span<const float> logits, int64_t vocabulary, const Sampling &sampling,
                    int64_t position) {
  std::vector<int32_t> order(static_cast<size_t>(vocabulary));
  std::iota(order.begin(), order.end(), 0);
  auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  for (int32_t id : order)
    if (!std::isfinite(logit(id)))
      throw Error(ExitCode::Failed, "logits",
                  fmt::format("the model gives {} for token {}", logit(id), id),
                  "its weights are not numbers any more: take an older checkpoint");
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t l, int32_t r) { return logit(l) > logit(r); });
  if (sampling.temperature <= 0)
    return order.front();
  if (sampling.topK > 0 && sampling.topK < vocabulary)
    order.resize(static_cast<size_t>(sampling.topK));
  std::vector<double> weights;
  double sum = 0;
  for (int32_t id : order) {
    weights.push_back(
        std::exp((static_cast<double>(logit(id)) - static_cast<double>(logit(order.front()))) /
                 sampling.temperature));
    sum += weights.back();
  }
  // The smallest set of the likeliest tokens with a share of top_p in all.
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < sampling.topP * sum))
    kept += weights[count++];
  auto words = philox4x32(
      {static_cast<uint32_t>(position), 0, 0, 0x6E3Eu},
      {static_cast<uint32_t>(sampling.seed), static_cast<uint32_t>(sampling.seed >> 32)});
  double draw = (static_cast<double>(words[0]) + 0.5) * 0x1p-32 * kept;
  for (size_t i = 0; i < count; ++i)
    if ((draw -= weights[i]) <= 0)
      return order[i];
  return order[count - 1];
}

std::vector<int32_t> promptTokens(const plan::Plan &plan, const std::string &flag,
                                  std::string_view text) {
  if (plan.vocabulary() < 256)
    throw badInput(flag,
                   fmt::format("is text, whose bytes need a vocabulary of 256; the model has {}",
                               plan.vocabulary()));
  if (text.empty())
    throw badInput(flag, "is empty", "give at least one character to go on from");
  std::vector<int32_t> tokens;
  for (char byte : text)
    tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string tokenText(int32_t id) {
  return id < 256 ? std::string(1, static_cast<char>(id)) : fmt::format("<{}>", id);
}

void generateTokens(Session &session, std::vector<int32_t> prompt, int64_t maxTokens,
                    const Sampling &sampling, const std::function<void(int32_t)> &emit) {
  Executor &run = session.executor();
  const auto purpose = plan::Purpose::Generate;
  auto time = static_cast<size_t>(session.require(purpose).time());
  std::span<int32_t> tokens = run.input<int32_t>(purpose, plan::InputKind::Tokens),
                     positions = run.input<int32_t>(purpose, plan::InputKind::Positions);
  for (int64_t i = 0; i < maxTokens; ++i) {
    // The last positions that fit; what is right of the last token is not seen by it.
    size_t count = std::min(prompt.size(), time);
    std::fill(tokens.begin(), tokens.end(), 0);
    std::copy(prompt.end() - static_cast<std::ptrdiff_t>(count), prompt.end(), tokens.begin());
    positions[0] = static_cast<int32_t>(count - 1);
    run.run(purpose);
    int32_t next =
        sampleToken(run.output<float>(purpose, plan::OutputKind::Logits),
                    std::min(session.plan().vocabulary(), session.plan().softmax()), sampling, i);
    prompt.push_back(next);
    emit(next);
  }
}

} // namespace ftlm
