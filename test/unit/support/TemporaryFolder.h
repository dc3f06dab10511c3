// SPDX-License-Identifier: Apache-2.0
// What the tests of files share: a folder that goes away, bytes in and out, and the text of the
// error that an action ends with.
#pragma once

#include "runtime/base/Error.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

namespace ftlm {

class TemporaryFolder {
public:
  TemporaryFolder() {
    // In memory where that is possible: the tests sync often.
    std::filesystem::path memory = "/dev/shm";
    bool usable = std::filesystem::is_directory(memory) && access(memory.c_str(), W_OK) == 0;
    std::filesystem::path parent = usable ? memory : std::filesystem::temp_directory_path();
    std::string name = (parent / "ftlm-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  std::filesystem::path operator/(const std::string &name) const { return path / name; }

  std::filesystem::path path;
};

inline std::filesystem::path put(const std::filesystem::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

inline std::string bytesIn(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The bytes of numbers, as they lie in memory.
template <typename T>
std::string raw(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

/// The bytes of a string.
inline std::span<const std::byte> bytesOfText(const std::string &text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// What the error of `action` says; "" when there was none.
template <typename Action>
std::string errorOf(Action action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace ftlm
