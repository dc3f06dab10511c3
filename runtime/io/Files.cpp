// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/Files.h"

#include "runtime/io/FileCalls.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#include <xxhash.h>

namespace ftlm {
namespace {

namespace fs = std::filesystem;

/// A file descriptor that closes itself.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

Error systemError(const fs::path &path, const char *what, ExitCode code = ExitCode::Failed) {
  std::string hint = errno == ENOSPC || errno == EDQUOT ? "make room on its disk" : "";
  return Error(code, path.string(), fmt::format("{}: {}", what, std::strerror(errno)), hint);
}

void writeAll(int file, std::span<const std::byte> bytes, const fs::path &path) {
  while (!bytes.empty()) {
    ssize_t written = FileCalls::current().write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      throw systemError(path, "cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

} // namespace

MappedFile::MappedFile(const fs::path &path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0)
    throw systemError(path, "cannot be opened", ExitCode::BadInput);
  struct stat status{};
  if (::fstat(file.number, &status) != 0)
    throw systemError(path, "cannot be examined", ExitCode::BadInput);
  if (!S_ISREG(status.st_mode))
    throw badInput(path.string(), S_ISDIR(status.st_mode) ? "is a folder" : "is no ordinary file",
                   "name a file");
  size = static_cast<size_t>(status.st_size);
  if (size == 0)
    return;
  void *address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED)
    throw systemError(path, "cannot be mapped", ExitCode::BadInput);
  data = static_cast<const std::byte *>(address);
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(const_cast<std::byte *>(data), size);
}

void writeFile(const fs::path &path, std::span<const std::span<const std::byte>> parts) {
  FileCalls &calls = FileCalls::current();
  fs::path temporary = path;
  temporary += ".tmp";
  Descriptor file{calls.open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (file.number < 0)
    throw systemError(temporary, "cannot be created");
  try {
    for (std::span<const std::byte> part : parts)
      writeAll(file.number, part, temporary);
    if (calls.fsync(file.number) != 0)
      throw systemError(temporary, "cannot be synced");
    renamePath(temporary, path);
  } catch (const Error &) {
    calls.remove(temporary.c_str());
    throw;
  }
}

void writeFile(const fs::path &path, std::string_view text) {
  std::span<const std::byte> part = std::as_bytes(std::span(text.data(), text.size()));
  writeFile(path, std::span(&part, 1));
}

AppendedFile::AppendedFile(const fs::path &name)
    : path(name), file(FileCalls::current().open(name.c_str(),
                                                 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file < 0)
    throw systemError(path, "cannot be opened");
}
AppendedFile::~AppendedFile() {
  ::close(file);
}
void AppendedFile::append(std::string_view text) {
  writeAll(file, std::as_bytes(std::span(text.data(), text.size())), path);
}

std::string readText(const fs::path &path) {
  MappedFile file(path);
  return {reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()};
}

void requireFreeBytes(const fs::path &folder, uint64_t bytes, const std::string &what) {
  fs::path existing = fs::absolute(folder);
  while (!fs::exists(existing) && existing.has_parent_path() && existing != existing.parent_path())
    existing = existing.parent_path();
  int64_t available = FileCalls::current().freeBytes(existing.c_str());
  if (available >= 0 && static_cast<uint64_t>(available) < bytes)
    throw Error(
        ExitCode::Unsupported, folder.string(),
        fmt::format("has {} bytes of free space on its disk; {} needs {}", available, what, bytes),
        "make room or choose another folder");
}

void makeFolders(const fs::path &folder) {
  if (folder.empty() || fs::is_directory(folder))
    return;
  makeFolders(folder.parent_path());
  if (FileCalls::current().mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    throw systemError(folder, "cannot be created");
  if (!fs::is_directory(folder))
    throw badInput(folder.string(), "exists and is no folder", "choose another name");
}

void removeTree(const fs::path &path) {
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(path, error))) {
    std::vector<fs::path> inside;
    for (auto &entry : fs::directory_iterator(path, error))
      inside.push_back(entry.path());
    std::sort(inside.begin(), inside.end());
    for (const fs::path &entry : inside)
      removeTree(entry);
  }
  if (FileCalls::current().remove(path.c_str()) != 0 && errno != ENOENT)
    throw systemError(path, "cannot be removed");
}

void renamePath(const fs::path &from, const fs::path &to) {
  if (FileCalls::current().rename(from.c_str(), to.c_str()) != 0)
    throw systemError(to, "cannot be renamed into place");
}

void replaceFolder(const fs::path &from, const fs::path &to) {
  if (!fs::exists(fs::symlink_status(to)))
    return renamePath(from, to);
  if (FileCalls::current().exchange(from.c_str(), to.c_str()) == 0)
    return;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    throw systemError(to, "cannot be replaced");
  // The file system cannot exchange names.
  fs::path aside = from;
  aside += ".old";
  removeTree(aside);
  renamePath(to, aside);
  renamePath(from, to);
  renamePath(aside, from);
}

void pointLink(const fs::path &link, const std::string &target) {
  fs::path temporary = link;
  temporary += ".tmp";
  removeTree(temporary);
  if (FileCalls::current().symlink(target.c_str(), temporary.c_str()) != 0)
    throw systemError(link, "cannot be made");
  renamePath(temporary, link);
}

void syncFolder(const fs::path &folder) {
  // A file at hand has no name for the folder that it lies in.
  const fs::path named = folder.empty() ? "." : folder;
  FileCalls &calls = FileCalls::current();
  Descriptor file{calls.open(named.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)};
  if (file.number < 0 || calls.fsync(file.number) != 0)
    throw systemError(named, "cannot be synced");
}

std::string hashOf(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

} // namespace ftlm
