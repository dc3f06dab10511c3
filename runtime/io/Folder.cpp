// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/Folder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <vector>

namespace ftlm {

namespace fs = std::filesystem;

FolderWriter::FolderWriter(fs::path target) : final(std::move(target)) {
  temporary = final.parent_path() / (".tmp-" + final.filename().string());
  std::error_code error;
  fs::remove_all(temporary, error);
  if (!fs::create_directories(temporary, error))
    throw Error(ExitCode::Failed, temporary.string(), "cannot be created: " + error.message());
}

FolderWriter::~FolderWriter() {
  std::error_code error;
  if (!committed)
    fs::remove_all(temporary, error);
}

void FolderWriter::commit() {
  nlohmann::ordered_json manifest;
  std::vector<fs::path> files;
  for (auto &entry : fs::directory_iterator(temporary))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path &file : files) {
    MappedFile mapped(file);
    manifest["files"][file.filename().string()] = {{"bytes", mapped.bytes().size()},
                                                   {"xxh3", hashOf(mapped.bytes())}};
  }
  writeFile(temporary / "manifest.json", manifest.dump(2) + "\n");
  syncFolder(temporary);
  std::error_code error;
  fs::remove_all(final, error);
  fs::rename(temporary, final, error);
  if (error)
    throw Error(ExitCode::Failed, final.string(),
                "cannot be renamed into place: " + error.message());
  committed = true;
  syncFolder(final.parent_path());
}

void verifyFolder(const fs::path &folder) {
  fs::path path = folder / "manifest.json";
  auto manifest = nlohmann::json::parse(readText(path), nullptr, false);
  if (manifest.is_discarded() || !manifest.contains("files") || !manifest["files"].is_object())
    throw badInput(path.string(), "is not a manifest of a checkpoint");
  for (auto &[name, facts] : manifest["files"].items()) {
    fs::path file = folder / name;
    if (fs::path(name).has_parent_path() || !fs::is_regular_file(file))
      throw badInput(file.string(), "is missing", "the checkpoint is not whole");
    MappedFile mapped(file);
    if (facts.value("bytes", uint64_t(0)) != mapped.bytes().size() ||
        facts.value("xxh3", "") != hashOf(mapped.bytes()))
      throw badInput(file.string(), "has another size or hash than the manifest says",
                     "the checkpoint is not whole");
  }
}

} // namespace ftlm
