// SPDX-License-Identifier: Apache-2.0
// Reading and writing whole files safely: mapped for reading, written under a temporary name,
// synced and renamed. Every error names the file and what the system said. All changes go through
// FileCalls.
#pragma once

#include "runtime/base/Error.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ftlm {

/// A file mapped into memory, read-only.
class MappedFile {
public:
  explicit MappedFile(const std::filesystem::path &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  std::span<const std::byte> bytes() const { return {data, size}; }

private:
  const std::byte *data = nullptr;
  size_t size = 0;
};

/// Writes `parts`, one after the other, to a file: temporary name, fsync, rename. After an error
/// the file is as it was before, and nothing is left under the temporary name.
void writeFile(const std::filesystem::path &path,
               std::span<const std::span<const std::byte>> parts);
void writeFile(const std::filesystem::path &path, std::string_view text);

/// A text file that grows; each piece is handed to the system at once.
class AppendedFile {
public:
  /// Opens the file at its end; it is made where it does not exist.
  explicit AppendedFile(const std::filesystem::path &path);
  ~AppendedFile();
  AppendedFile(const AppendedFile &) = delete;
  AppendedFile &operator=(const AppendedFile &) = delete;
  void append(std::string_view text);

private:
  std::filesystem::path path;
  int file;
};

/// The text of a small file.
std::string readText(const std::filesystem::path &path);

/// Throws when the file system of `folder` (or its nearest existing parent) has less room than
/// `bytes`, which `what` needs.
void requireFreeBytes(const std::filesystem::path &folder, uint64_t bytes, const std::string &what);

/// Makes a folder and those above it.
void makeFolders(const std::filesystem::path &folder);

/// Removes a file, a link, or a folder with all in it; nothing there is no error.
void removeTree(const std::filesystem::path &path);

/// Renames; what has the new name is replaced as rename(2) does.
void renamePath(const std::filesystem::path &from, const std::filesystem::path &to);

/// Gives `from` the name `to`, also where a folder has it, which lies at `from` then. Whatever has
/// the name at any moment is one of the two.
void replaceFolder(const std::filesystem::path &from, const std::filesystem::path &to);

/// Points the link at `target`, in one step.
void pointLink(const std::filesystem::path &link, const std::string &target);

/// fsync of a folder, so that a rename in it lasts.
void syncFolder(const std::filesystem::path &folder);

/// XXH3 (64 bits) of the bytes, 16 hex digits.
std::string hashOf(std::span<const std::byte> bytes);

} // namespace ftlm
