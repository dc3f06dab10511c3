// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ftlm {

using Json = nlohmann::ordered_json;

void MaskedSteps::add(int64_t step) {
  ++steps;
  if (!told)
    fmt::print(stderr, "warning: all targets of step {} are masked; its gradient is zero\n", step);
  told = true;
}

void MaskedSteps::finish() const {
  if (told)
    fmt::print(stderr, "warning: {} steps had no target that counts\n", steps);
}

void writeReport(const std::filesystem::path &path, Session &session, int64_t steps,
                 int64_t maskedSteps) {
  Json json, rank;
  rank["rank"] = 0;
  rank["arena_bytes"] = session.executor().allocatedBytes();
  rank["link_bytes"] = Json::object();
  json["hash"] = session.hash();
  json["isa"] = session.executor().isa();
  json["threads"] = session.executor().threads();
  json["steps"] = steps;
  json["masked_steps"] = maskedSteps;
  json["ranks"] = {rank};
  json["peak_rss_bytes"] = Session::peakResidentBytes();
  for (auto &[kind, seconds] : session.executor().profile())
    json["seconds"][kind] = seconds;
  writeFile(path, json.dump(2) + "\n");
}

} // namespace ftlm
