// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Checkpoint.h"

#include <cstring>
#include <fmt/format.h>

namespace ftlm {
namespace {

namespace fs = std::filesystem;

/// The moments of the optimizer, by global name.
std::vector<std::pair<std::string, std::span<float>>> momentsOf(Session &session) {
  std::vector<std::pair<std::string, std::span<float>>> list;
  for (size_t i = 0; i < session.parameters(); ++i) {
    std::string name = session.plan().parameters()->Get(static_cast<uint32_t>(i))->name()->str();
    if (std::span<float> m = session.executor().moment1(i); !m.empty())
      list.push_back({"moment1." + name, m});
    if (std::span<float> m = session.executor().moment2(i); !m.empty())
      list.push_back({"moment2." + name, m});
  }
  return list;
}

} // namespace

uint64_t checkpointBytes(Session &session) {
  uint64_t bytes = 1 << 20;
  for (size_t i = 0; i < session.parameters(); ++i)
    bytes += session.executor().value(i).size_bytes();
  for (auto &[name, moment] : momentsOf(session))
    bytes += moment.size_bytes();
  return bytes;
}

void saveCheckpoint(Session &session, const fs::path &run, int64_t step,
                    const nlohmann::ordered_json &state, int keep) {
  saveStep(run, step, keep, [&](const fs::path &folder) {
    saveModel(folder, session.plan(), [&](size_t i) { return session.executor().value(i); });
    std::vector<TensorView> tensors;
    for (auto &[tensor, moment] : momentsOf(session))
      tensors.push_back({tensor,
                         plan::DType::F32,
                         {static_cast<int64_t>(moment.size())},
                         std::as_bytes(std::span<const float>(moment))});
    writeSafetensors(folder / "training.safetensors", std::move(tensors));
    writeFile(folder / "state.json", state.dump(2) + "\n");
  });
}

nlohmann::ordered_json loadCheckpoint(Session &session, const fs::path &checkpoint) {
  std::vector<fs::path> sources = {checkpoint};
  session.load(sources);
  SafetensorsFile file = SafetensorsFile::open(checkpoint / "training.safetensors");
  std::vector<std::pair<std::string, std::span<float>>> moments = momentsOf(session);
  for (auto &[name, moment] : moments) {
    const TensorView *tensor = file.find(name);
    if (!tensor || tensor->dtype != plan::DType::F32 || tensor->data.size() != moment.size_bytes())
      throw badInput((checkpoint / "training.safetensors").string(),
                     fmt::format("has no tensor '{}' of {} numbers", name, moment.size()),
                     "resume with a plan of the same optimizer and model");
  }
  for (auto &[name, moment] : moments)
    std::memcpy(moment.data(), file.find(name)->data.data(), moment.size_bytes());
  auto state = nlohmann::ordered_json::parse(readText(checkpoint / "state.json"), nullptr, false);
  if (state.is_discarded() || !state.is_object())
    throw badInput((checkpoint / "state.json").string(), "is no JSON object");
  return state;
}

} // namespace ftlm
