// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Settings.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ftlm {

using Json = nlohmann::ordered_json;

Json settingsOf(const TrainOptions &o, const plan::Plan &plan, const std::string &data,
                int64_t steps) {
  Json json;
  json["model"] = plan.model()->str();
  json["batch"] = plan.batch();
  json["micro_batch"] = plan.micro_batch();
  json["seq_len"] = plan.time();
  json["optimizer"] = plan::EnumNameOptimizer(plan.optimizer());
  json["data"] = data;
  json["overlong"] = o.overlong == Overlong::Error ? "error"
                     : o.overlong == Overlong::Cut ? "cut"
                                                   : "drop";
  json["steps"] = steps;
  json["lr"] = o.schedule.peak;
  json["min_lr"] = o.schedule.minimum;
  json["lr_schedule"] = o.schedule.kind;
  json["warmup"] = o.schedule.warmup;
  json["beta1"] = o.hyper.beta1;
  json["beta2"] = o.hyper.beta2;
  json["eps"] = o.hyper.eps;
  json["weight_decay"] = o.hyper.weightDecay;
  json["clip"] = o.hyper.clip;
  json["seed"] = o.seed;
  return json;
}

void compareSettings(const Json &before, const Json &now,
                     const std::vector<std::string> &overrides) {
  for (const std::string &name : overrides)
    if (!now.contains(name)) {
      std::vector<std::string> known;
      for (auto &[key, value] : now.items())
        known.push_back(key);
      throw badInput("--override", fmt::format("'{}' is no setting", name),
                     fmt::format("one of {}", fmt::join(known, ", ")));
    }
  std::vector<std::string> differences;
  for (auto &[key, value] : now.items()) {
    bool intended = std::find(overrides.begin(), overrides.end(), key) != overrides.end();
    if (!intended && before.value(key, Json()) != value)
      differences.push_back(
          fmt::format("{} was {} and is {}", key, before.value(key, Json()).dump(), value.dump()));
  }
  if (!differences.empty())
    throw badInput("--resume",
                   fmt::format("with other settings:\n  {}", fmt::join(differences, "\n  ")),
                   "give the settings of the first run, or name those that are meant to change "
                   "with --override NAME");
}

} // namespace ftlm
