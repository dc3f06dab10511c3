// SPDX-License-Identifier: Apache-2.0
// Folders that appear whole or not at all: written under a temporary name, with a manifest of sizes
// and hashes, synced and renamed. verifyFolder tells whether one is whole.
#pragma once

#include "runtime/io/Files.h"

namespace ftlm {

class FolderWriter {
public:
  /// Makes the temporary folder beside `final`; what an earlier attempt left there is removed.
  explicit FolderWriter(std::filesystem::path final);
  /// Removes the temporary folder unless it was committed.
  ~FolderWriter();
  FolderWriter(const FolderWriter &) = delete;
  FolderWriter &operator=(const FolderWriter &) = delete;

  /// Where to write the files.
  const std::filesystem::path &path() const { return temporary; }
  /// Writes manifest.json, syncs, renames.
  void commit();

private:
  std::filesystem::path final, temporary;
  bool committed = false;
};

/// Throws, naming the file, when a file of the manifest is missing or has another size or hash.
void verifyFolder(const std::filesystem::path &folder);

} // namespace ftlm
