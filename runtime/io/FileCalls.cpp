// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/FileCalls.h"

#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace ftlm {

static std::atomic<FileCalls *> replacement = nullptr;

int FileCalls::open(const char *path, int flags, unsigned mode) {
  return ::open(path, flags, mode);
}
ssize_t FileCalls::write(int file, const void *data, size_t bytes) {
  return ::write(file, data, bytes);
}
int FileCalls::fsync(int file) {
  return ::fsync(file);
}
int FileCalls::rename(const char *from, const char *to) {
  return ::rename(from, to);
}
int FileCalls::exchange(const char *left, const char *right) {
  return ::renameat2(AT_FDCWD, left, AT_FDCWD, right, RENAME_EXCHANGE);
}
int FileCalls::mkdir(const char *path, unsigned mode) {
  return ::mkdir(path, mode);
}
int FileCalls::symlink(const char *target, const char *link) {
  return ::symlink(target, link);
}
int FileCalls::remove(const char *path) {
  return ::remove(path);
}
int64_t FileCalls::freeBytes(const char *path) {
  struct statvfs facts{};
  if (::statvfs(path, &facts) != 0)
    return -1;
  return static_cast<int64_t>(facts.f_bavail * facts.f_frsize);
}

FileCalls &FileCalls::current() {
  static FileCalls system;
  FileCalls *given = replacement.load();
  return given ? *given : system;
}
void FileCalls::replace(FileCalls *calls) {
  replacement = calls;
}

} // namespace ftlm
