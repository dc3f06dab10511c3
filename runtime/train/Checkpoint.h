// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run: folders step-N that hold the model as a Hugging Face folder with the
// state of the training beside it. They appear whole or not at all; `last` and `best` point at two
// of them.
#pragma once

#include "runtime/train/Session.h"

#include <nlohmann/json.hpp>
#include <optional>

namespace ftlm {

/// Saves step-N with the moments and `state` (state.json), moves `last` to it, and then removes old
/// checkpoints beyond `keep` (0: keeps all), never the one that `best` points at.
void saveCheckpoint(Session &session, const std::filesystem::path &run, int64_t step,
                    const nlohmann::ordered_json &state, int keep);

/// Points `best` at step-N.
void markBest(const std::filesystem::path &run, int64_t step);

/// The newest checkpoint of a run that is whole; says on standard error which newer ones are not.
std::optional<std::filesystem::path> newestCheckpoint(const std::filesystem::path &run);

/// Loads the model and the moments; returns state.json.
nlohmann::ordered_json loadCheckpoint(Session &session, const std::filesystem::path &checkpoint);

/// Bytes of one checkpoint.
uint64_t checkpointBytes(Session &session);

} // namespace ftlm
