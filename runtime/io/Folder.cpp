// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/Folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace ftlm {

namespace fs = std::filesystem;

FolderWriter::FolderWriter(fs::path target) : final(std::move(target)) {
  temporary = final.parent_path() / (std::string(temporaryPrefix) + final.filename().string());
  removeTree(temporary);
  makeFolders(temporary);
}

FolderWriter::~FolderWriter() {
  try {
    removeTree(temporary);
  } catch (const Error &) {
    // What is left has a temporary name: nothing takes it, and the next attempt removes it.
  }
}

void FolderWriter::commit() {
  nlohmann::ordered_json manifest;
  manifest["files"] = nlohmann::ordered_json::object();
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
  replaceFolder(temporary, final);
  syncFolder(final.parent_path());
}

void verifyFolder(const fs::path &folder, std::initializer_list<std::string_view> required) {
  fs::path path = folder / "manifest.json";
  auto manifest = nlohmann::json::parse(readText(path), nullptr, false);
  const char *notWhole = "the folder is not whole";
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object())
    throw badInput(path.string(), "is no manifest of a folder", notWhole);
  const nlohmann::json &files = manifest["files"];
  for (std::string_view name : required)
    if (!files.contains(std::string(name)))
      throw badInput(path.string(), "does not list " + std::string(name), notWhole);
  for (auto &[name, facts] : files.items()) {
    fs::path file = folder / name;
    if (name.empty() || fs::path(name).has_parent_path() || !fs::is_regular_file(file))
      throw badInput(file.string(), "is missing", notWhole);
    MappedFile mapped(file);
    if (!facts.is_object() || !facts.contains("bytes") || facts["bytes"] != mapped.bytes().size() ||
        !facts.contains("xxh3") || facts["xxh3"] != hashOf(mapped.bytes()))
      throw badInput(file.string(), "has another size or hash than the manifest says", notWhole);
  }
}

} // namespace ftlm
