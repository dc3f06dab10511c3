// SPDX-License-Identifier: Apache-2.0
// Text from a model: draws one token after the other from the logits of the plan's program
// for generation. Ids outside the vocabulary cannot be drawn. The same seed gives the same text.
#pragma once

#include "runtime/train/Session.h"

namespace ftlm {

struct Sampling {
  double temperature = 1; // 0: the likeliest token
  int64_t topK = 0;       // 0: all
  double topP = 1;
  uint64_t seed = 0;
};

/// Draws an id from logits; `position` counts the draws. Only the first `vocabulary` logits take
/// part; throws when one of them is no finite number.
int32_t sampleToken(std::span<const float> logits, int64_t vocabulary, const Sampling &sampling,
                    int64_t position);

/// The ids of a prompt, its bytes; `flag` is for errors: a model without ids for all bytes, no
/// text.
std::vector<int32_t> promptTokens(const plan::Plan &plan, const std::string &flag,
                                  std::string_view text);

/// The text of an id. Ids above the bytes have none of their own and are shown as a number.
std::string tokenText(int32_t id);

/// Calls `emit` for each new token after `prompt`, which is not empty.
void generateTokens(Session &session, std::vector<int32_t> prompt, int64_t maxTokens,
                    const Sampling &sampling, const std::function<void(int32_t)> &emit);

} // namespace ftlm
