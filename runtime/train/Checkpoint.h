// SPDX-License-Identifier: Apache-2.0
// What a checkpoint of a run holds: the model as a Hugging Face folder, and beside it the state of
// the training (the optimizer's moments, state.json). RunFolder.h says how it comes into the run's
// folder and leaves it.
#pragma once

#include "runtime/train/RunFolder.h"
#include "runtime/train/Session.h"

#include <nlohmann/json.hpp>

namespace ftlm {

/// Saves step-N of a run (RunFolder.h) with the moments and `state` (state.json).
void saveCheckpoint(Session &session, const std::filesystem::path &run, int64_t step,
                    const nlohmann::ordered_json &state, int keep);

/// Loads the model and the moments; returns state.json.
nlohmann::ordered_json loadCheckpoint(Session &session, const std::filesystem::path &checkpoint);

/// Bytes of one checkpoint.
uint64_t checkpointBytes(Session &session);

} // namespace ftlm
