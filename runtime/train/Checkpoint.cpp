// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Checkpoint.h"

#include "runtime/io/Folder.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>

namespace ftlm {
namespace {

namespace fs = std::filesystem;

/// The step-N folders of a run, by N.
std::map<int64_t, fs::path> checkpointsOf(const fs::path &run) {
  std::map<int64_t, fs::path> found;
  std::error_code error;
  for (auto &entry : fs::directory_iterator(run, error)) {
    std::string name = entry.path().filename();
    if (name.starts_with("step-") && name.size() > 5 &&
        name.find_first_not_of("0123456789", 5) == std::string::npos)
      found[std::stoll(name.substr(5))] = entry.path();
  }
  return found;
}

/// Points a link at a folder, atomically.
void pointAt(const fs::path &link, const std::string &target) {
  fs::path temporary = link;
  temporary += ".tmp";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  if (!error)
    fs::rename(temporary, link, error);
  if (error)
    throw Error(ExitCode::Failed, link.string(), "cannot be made: " + error.message());
}

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
  std::string name = fmt::format("step-{}", step);
  FolderWriter writer(run / name);
  saveModel(writer.path(), session.plan(), [&](size_t i) { return session.executor().value(i); });
  std::vector<TensorView> tensors;
  for (auto &[tensor, moment] : momentsOf(session))
    tensors.push_back({tensor,
                       plan::DType::F32,
                       {static_cast<int64_t>(moment.size())},
                       std::as_bytes(std::span<const float>(moment))});
  writeSafetensors(writer.path() / "training.safetensors", std::move(tensors));
  writeFile(writer.path() / "state.json", state.dump(2) + "\n");
  writer.commit();
  pointAt(run / "last", name);
  if (keep <= 0)
    return;
  std::error_code error;
  fs::path best = fs::read_symlink(run / "best", error);
  std::map<int64_t, fs::path> all = checkpointsOf(run);
  for (auto it = all.begin(); it != all.end() && all.size() > static_cast<size_t>(keep);) {
    if (it->first == step || it->second.filename() == best) {
      ++it;
      continue;
    }
    fs::remove_all(it->second, error);
    it = all.erase(it);
  }
}

void markBest(const fs::path &run, int64_t step) {
  pointAt(run / "best", fmt::format("step-{}", step));
}

std::optional<fs::path> newestCheckpoint(const fs::path &run) {
  std::map<int64_t, fs::path> all = checkpointsOf(run);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    try {
      verifyFolder(it->second);
      return it->second;
    } catch (const Error &error) {
      fmt::print(stderr, "{}\n  an older checkpoint is taken\n", error.what());
    }
  }
  return std::nullopt;
}

nlohmann::ordered_json loadCheckpoint(Session &session, const fs::path &checkpoint) {
  std::vector<fs::path> sources = {checkpoint};
  session.load(sources);
  SafetensorsFile file = SafetensorsFile::open(checkpoint / "training.safetensors");
  std::vector<std::pair<std::string, std::span<float>>> moments = momentsOf(session);
  for (auto &[name, moment] : moments) {
    const TensorView *tensor = file.find(name);
    if (!tensor || tensor->data.size() != moment.size_bytes())
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
