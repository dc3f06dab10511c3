// SPDX-License-Identifier: Apache-2.0
// Files and folders that appear whole or not at all.
#include "runtime/io/Folder.h"
#include "runtime/io/FileCalls.h"
#include "test/unit/support/TemporaryFolder.h"

#include <gmock/gmock.h>

using namespace ftlm;
using testing::AllOf;
using testing::HasSubstr;

namespace {

void writeExample(const std::filesystem::path &target, const std::string &text) {
  FolderWriter writer(target);
  writeFile(writer.path() / "a.txt", text);
  writeFile(writer.path() / "b.txt", "second");
  writer.commit();
}

TEST(Folder, wholeFolderIsVerified) {
  TemporaryFolder folder;
  writeExample(folder / "x", "first");
  EXPECT_EQ(errorOf([&] { verifyFolder(folder / "x", {"a.txt", "b.txt"}); }), "");
  EXPECT_EQ(bytesIn(folder / "x/a.txt"), "first");
  EXPECT_FALSE(std::filesystem::exists(folder / ".tmp-x"));
}

TEST(Folder, committedFolderReplacesTheOneOfItsName) {
  TemporaryFolder folder;
  writeExample(folder / "x", "old");
  writeExample(folder / "x", "new");
  EXPECT_EQ(bytesIn(folder / "x/a.txt"), "new");
  EXPECT_EQ(errorOf([&] { verifyFolder(folder / "x"); }), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1);
}

/// A file system that cannot exchange names.
struct NoExchange : FileCalls {
  int exchange(const char *, const char *) override {
    errno = EINVAL;
    return -1;
  }
};

TEST(Folder, isReplacedWhereNamesCannotBeExchanged) {
  TemporaryFolder folder;
  NoExchange calls;
  FileCalls::replace(&calls);
  writeExample(folder / "x", "old");
  writeExample(folder / "x", "new");
  FileCalls::replace(nullptr);
  EXPECT_EQ(bytesIn(folder / "x/a.txt"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1);
}

TEST(Folder, withoutCommitNothingStays) {
  TemporaryFolder folder;
  {
    FolderWriter writer(folder / "x");
    writeFile(writer.path() / "a.txt", "lost");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(Folder, everyDamageIsFoundAndNamed) {
  struct Case {
    const char *file, *bytes, *says;
  };
  for (const Case &c :
       {Case{"a.txt", "first!", "a.txt"}, Case{"a.txt", "fjrst", "a.txt"},
        Case{"a.txt", "", "a.txt"}, Case{"manifest.json", "", "manifest"},
        Case{"manifest.json", "[]", "manifest"},
        Case{"manifest.json", "{\"files\": 3}", "manifest"},
        Case{"manifest.json", "{\"files\": {\"a.txt\": 3}}", "a.txt"},
        Case{"manifest.json", "{\"files\": {\"a.txt\": {\"bytes\": \"5\"}}}", "a.txt"},
        Case{"manifest.json", "{\"files\": {\"../a\": {}}}", "missing"},
        Case{"manifest.json", "{\"files\": {\"\": {}}}", "missing"}}) {
    TemporaryFolder folder;
    writeExample(folder / "x", "first");
    put(folder / "x" / c.file, c.bytes);
    EXPECT_THAT(errorOf([&] { verifyFolder(folder / "x"); }), HasSubstr(c.says)) << c.bytes;
  }
  TemporaryFolder folder;
  writeExample(folder / "x", "first");
  EXPECT_THAT(errorOf([&] { verifyFolder(folder / "x", {"a.txt", "c.txt"}); }), HasSubstr("c.txt"));
  std::filesystem::remove(folder / "x/b.txt");
  EXPECT_THAT(errorOf([&] { verifyFolder(folder / "x"); }), HasSubstr("b.txt"));
}

/// A disk with `room` bytes left.
struct SmallDisk : FileCalls {
  int64_t room = 0;
  int64_t freeBytes(const char *) override { return room; }
  ssize_t write(int file, const void *data, size_t bytes) override {
    if (room == 0) {
      errno = ENOSPC;
      return -1;
    }
    ssize_t written = FileCalls::write(file, data, std::min(bytes, static_cast<size_t>(room)));
    room -= written;
    return written;
  }
};

TEST(Files, fullDiskLeavesTheOldFileAndSaysWhatToDo) {
  TemporaryFolder folder;
  put(folder / "f", "old");
  SmallDisk disk;
  disk.room = 3;
  FileCalls::replace(&disk);
  std::string what = errorOf([&] { writeFile(folder / "f", "longer than that"); });
  FileCalls::replace(nullptr);
  EXPECT_THAT(what, AllOf(HasSubstr("f.tmp"), HasSubstr("No space left"), HasSubstr("make room")));
  EXPECT_EQ(bytesIn(folder / "f"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "f.tmp"));
}

TEST(Files, roomIsAskedForBeforehand) {
  TemporaryFolder folder;
  SmallDisk disk;
  disk.room = 999;
  FileCalls::replace(&disk);
  auto asked = [&](uint64_t bytes) {
    return errorOf([&] { requireFreeBytes(folder / "not/yet/there", bytes, "a checkpoint"); });
  };
  std::string enough = asked(999), what = asked(1000);
  FileCalls::replace(nullptr);
  EXPECT_EQ(enough, "");
  EXPECT_THAT(what, AllOf(HasSubstr("999 bytes"), HasSubstr("a checkpoint needs 1000")));
}

TEST(Files, textOfAFolderIsRefused) {
  TemporaryFolder folder;
  EXPECT_THAT(errorOf([&] { readText(folder.path); }), HasSubstr("is a folder"));
  EXPECT_THAT(errorOf([&] { readText(folder / "no"); }), HasSubstr("No such file"));
}

} // namespace
