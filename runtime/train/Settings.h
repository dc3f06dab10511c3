// SPDX-License-Identifier: Apache-2.0
// The settings that decide the result of a run. They lie in settings.json and in each checkpoint,
// and a resumed run must have the same, but for those that the user names as intended.
#pragma once

#include "runtime/train/Trainer.h"

#include <nlohmann/json.hpp>

namespace ftlm {

/// `data` is the hash of the data's contents, `steps` how many the run has in all.
nlohmann::ordered_json settingsOf(const TrainOptions &options, const plan::Plan &plan,
                                  const std::string &data, int64_t steps);

/// Throws, naming each setting that differs and is not among `overrides`.
void compareSettings(const nlohmann::ordered_json &before, const nlohmann::ordered_json &now,
                     const std::vector<std::string> &overrides);

} // namespace ftlm
