// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunFolder.h"

#include "runtime/io/Folder.h"

#include <charconv>
#include <fmt/format.h>
#include <map>
#include <vector>

namespace ftlm {
namespace {

namespace fs = std::filesystem;

std::string stepName(int64_t step) {
  return fmt::format("step-{}", step);
}

/// The step-N folders of a run, by N.
std::map<int64_t, fs::path> checkpointsOf(const fs::path &run) {
  std::map<int64_t, fs::path> found;
  std::error_code error;
  for (auto &entry : fs::directory_iterator(run, error)) {
    std::string name = entry.path().filename();
    int64_t step = 0;
    if (!name.starts_with("step-"))
      continue;
    auto [end, problem] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (problem == std::errc() && step >= 0 && name == stepName(step))
      found[step] = entry.path();
  }
  return found;
}

/// Removes what saves and removals that were interrupted left.
void removeLeftovers(const fs::path &run) {
  std::vector<fs::path> left;
  std::error_code error;
  for (auto &entry : fs::directory_iterator(run, error))
    if (entry.path().filename().string().starts_with(temporaryPrefix))
      left.push_back(entry.path());
  for (const fs::path &path : left)
    removeTree(path);
}

/// Removes a checkpoint so that no moment shows a part of it under its name.
void removeCheckpoint(const fs::path &folder) {
  fs::path aside =
      folder.parent_path() / (std::string(temporaryPrefix) + folder.filename().string());
  removeTree(aside);
  renamePath(folder, aside);
  removeTree(aside);
}

} // namespace

void saveStep(const fs::path &run, int64_t step, int keep,
              const std::function<void(const fs::path &)> &write) {
  removeLeftovers(run);
  FolderWriter writer(run / stepName(step));
  write(writer.path());
  writer.commit();
  pointLink(run / "last", stepName(step));
  syncFolder(run);
  if (keep <= 0)
    return;
  std::error_code error;
  fs::path best = fs::read_symlink(run / "best", error);
  int kept = 0;
  std::map<int64_t, fs::path> all = checkpointsOf(run);
  for (auto it = all.rbegin(); it != all.rend(); ++it)
    if (++kept > keep && it->first != step && it->second.filename() != best)
      removeCheckpoint(it->second);
}

void markBest(const fs::path &run, int64_t step) {
  pointLink(run / "best", stepName(step));
}

std::optional<fs::path> newestCheckpoint(const fs::path &run) {
  std::map<int64_t, fs::path> all = checkpointsOf(run);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    try {
      verifyFolder(it->second, {"model.safetensors", "training.safetensors", "state.json"});
      return it->second;
    } catch (const Error &error) {
      fmt::print(stderr, "{}\n  this checkpoint is not taken\n", error.what());
    }
  }
  return std::nullopt;
}

size_t countCheckpoints(const fs::path &run) {
  return checkpointsOf(run).size();
}

} // namespace ftlm
