// SPDX-License-Identifier: Apache-2.0
// Folders that appear whole or not at all: written under a temporary name, with a manifest of sizes
// and hashes, synced and renamed. verifyFolder tells whether one is whole. Names that begin with
// temporaryPrefix are never results.
#pragma once

#include "runtime/io/Files.h"

#include <string_view>

namespace ftlm {

inline constexpr std::string_view temporaryPrefix = ".tmp-";

class FolderWriter {
public:
  /// Makes the temporary folder beside `final`; what an earlier attempt left there is removed.
  explicit FolderWriter(std::filesystem::path final);
  /// Removes the temporary folder, as far as that is possible.
  ~FolderWriter();
  FolderWriter(const FolderWriter &) = delete;
  FolderWriter &operator=(const FolderWriter &) = delete;

  /// Where to write the files.
  const std::filesystem::path &path() const { return temporary; }
  /// Writes manifest.json, syncs, and gives the folder its name; a folder that had the name before
  /// is removed after that.
  void commit();

private:
  std::filesystem::path final, temporary;
};

/// Throws, naming the file, when the manifest lacks one of `required`, or a file of the manifest is
/// missing or has another size or hash.
void verifyFolder(const std::filesystem::path &folder,
                  std::initializer_list<std::string_view> required = {});

} // namespace ftlm
