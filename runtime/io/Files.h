// SPDX-License-Identifier: Apache-2.0
// Reading and writing whole files safely: mapped for reading, written under a temporary name,
// synced and renamed. Every error names the file and what the system said.
#pragma once

#include "runtime/base/Error.h"

#include <cstddef>
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

/// Writes `parts`, one after the other, to a file: temporary name, fsync, rename.
void writeFile(const std::filesystem::path &path,
               std::span<const std::span<const std::byte>> parts);
void writeFile(const std::filesystem::path &path, std::string_view text);

/// The text of a small file.
std::string readText(const std::filesystem::path &path);

/// Throws when the file system of `folder` (or its nearest existing parent) has less room than
/// `bytes`.
void requireFreeBytes(const std::filesystem::path &folder, uint64_t bytes);

/// fsync of a folder, so that a rename in it lasts.
void syncFolder(const std::filesystem::path &folder);

/// XXH3 (64 bits) of the bytes, 16 hex digits.
std::string hashOf(std::span<const std::byte> bytes);

} // namespace ftlm
