// SPDX-License-Identifier: Apache-2.0
// The system calls that change the file system, behind one small class. All writing goes through
// FileCalls::current(); a test replaces it to make the n-th call fail or to end the process there.
// Each call returns what the system call of its name returns, and sets errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace ftlm {

class FileCalls {
public:
  virtual ~FileCalls() = default;
  virtual int open(const char *path, int flags, unsigned mode);
  virtual ssize_t write(int file, const void *data, size_t bytes);
  virtual int fsync(int file);
  virtual int rename(const char *from, const char *to);
  /// Exchanges two names in one step.
  virtual int exchange(const char *left, const char *right);
  virtual int mkdir(const char *path, unsigned mode);
  virtual int symlink(const char *target, const char *link);
  /// Removes a file, a link or an empty folder.
  virtual int remove(const char *path);
  /// The bytes that a file system has free for us; -1: not known.
  virtual int64_t freeBytes(const char *path);

  /// What the program uses: the system's calls unless they were replaced.
  static FileCalls &current();
  /// Uses `calls` from now on; nullptr: the system's. For tests.
  static void replace(FileCalls *calls);
};

} // namespace ftlm
