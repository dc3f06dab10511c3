// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/Files.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

namespace ftlm {
namespace {

/// A file descriptor that closes itself.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

Error systemError(const std::filesystem::path &path, const char *what,
                  ExitCode code = ExitCode::BadInput) {
  return Error(code, path.string(), fmt::format("{}: {}", what, std::strerror(errno)));
}

} // namespace

MappedFile::MappedFile(const std::filesystem::path &path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0)
    throw systemError(path, "cannot be opened");
  struct stat status{};
  if (::fstat(file.number, &status) != 0)
    throw systemError(path, "cannot be examined");
  if (!S_ISREG(status.st_mode))
    throw badInput(path.string(), S_ISDIR(status.st_mode) ? "is a folder" : "is no ordinary file",
                   "name a file");
  size = static_cast<size_t>(status.st_size);
  if (size == 0)
    return;
  void *address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED)
    throw systemError(path, "cannot be mapped");
  data = static_cast<const std::byte *>(address);
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(const_cast<std::byte *>(data), size);
}

void writeFile(const std::filesystem::path &path,
               std::span<const std::span<const std::byte>> parts) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  {
    Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (file.number < 0)
      throw systemError(temporary, "cannot be created", ExitCode::Failed);
    for (std::span<const std::byte> part : parts)
      while (!part.empty()) {
        ssize_t written = ::write(file.number, part.data(), part.size());
        if (written < 0 && errno == EINTR)
          continue;
        if (written < 0) {
          Error error = systemError(temporary, "cannot be written", ExitCode::Failed);
          ::unlink(temporary.c_str());
          throw error;
        }
        part = part.subspan(static_cast<size_t>(written));
      }
    if (::fsync(file.number) != 0)
      throw systemError(temporary, "cannot be synced", ExitCode::Failed);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    throw systemError(path, "cannot be renamed into place", ExitCode::Failed);
}

void writeFile(const std::filesystem::path &path, std::string_view text) {
  std::span<const std::byte> part = std::as_bytes(std::span(text.data(), text.size()));
  writeFile(path, std::span(&part, 1));
}

std::string readText(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw systemError(path, "cannot be opened");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void requireFreeBytes(const std::filesystem::path &folder, uint64_t bytes) {
  std::filesystem::path existing = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(existing) && existing.has_parent_path() &&
         existing != existing.parent_path())
    existing = existing.parent_path();
  std::error_code error;
  std::filesystem::space_info space = std::filesystem::space(existing, error);
  if (!error && space.available < bytes)
    throw Error(
        ExitCode::Unsupported, folder.string(),
        fmt::format("has {} bytes of free space, a checkpoint needs {}", space.available, bytes),
        "make room or choose another folder");
}

void syncFolder(const std::filesystem::path &folder) {
  Descriptor file{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (file.number < 0 || ::fsync(file.number) != 0)
    throw systemError(folder, "cannot be synced", ExitCode::Failed);
}

std::string hashOf(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

} // namespace ftlm
