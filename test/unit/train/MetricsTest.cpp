// SPDX-License-Identifier: Apache-2.0
// The lines of metrics.jsonl: numbers that are none are shown, lines outlive a resume.
#include "runtime/train/Metrics.h"
#include "runtime/io/FileCalls.h"
#include "test/unit/support/TemporaryFolder.h"

#include <cmath>
#include <gmock/gmock.h>

using namespace ftlm;
using testing::HasSubstr;

namespace {

TEST(Metrics, numbersThatAreNoneAreWrittenAsSuch) {
  EXPECT_EQ(
      jsonLine({{"loss", std::nan("")}, {"a", INFINITY}, {"b", -INFINITY}, {"step", int64_t(3)}}),
      R"({"loss": NaN, "a": Infinity, "b": -Infinity, "step": 3})");
}

TEST(Metrics, numbersKeepAllTheirDigits) {
  for (double value : {0.1, 1.0 / 3, 1e-300, 6.25e-5, 123456789.125, -0.0, 5e-324}) {
    std::string line = jsonLine({{"x", value}});
    EXPECT_EQ(std::strtod(line.c_str() + 6, nullptr), value) << line;
  }
}

TEST(Metrics, textsThatAreNoUtf8DoNotEndTheRun) {
  EXPECT_EQ(jsonLine({{"text", std::string("a\"\n\xff")}}), "{\"text\": \"a\\\"\\n\xef\xbf\xbd\"}");
}

void writeSteps(const std::filesystem::path &path, int64_t keep, int64_t from, int64_t to) {
  MetricsFile file(path, keep);
  for (int64_t step = from; step <= to; ++step)
    file.write({{"step", step}});
}

TEST(Metrics, resumeKeepsTheLinesUpToItsStep) {
  TemporaryFolder folder;
  writeSteps(folder / "m", 0, 1, 5);
  writeSteps(folder / "m", 3, 4, 4);
  EXPECT_EQ(bytesIn(folder / "m"), "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4}\n");
  put(folder / "m",
      bytesIn(folder / "m") + "{\"event\": \"eval\", \"step\": 4}\n{\"step\": 5, \"lo");
  writeSteps(folder / "m", 5, 6, 6);
  EXPECT_EQ(bytesIn(folder / "m"), "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4}\n"
                                   "{\"event\": \"eval\", \"step\": 4}\n{\"step\": 6}\n");
}

TEST(Metrics, lineIsThereAsSoonAsItIsWritten) {
  TemporaryFolder folder;
  MetricsFile file(folder / "m", 0);
  file.write({{"step", int64_t(1)}});
  EXPECT_EQ(bytesIn(folder / "m"), "{\"step\": 1}\n");
}

/// Fails the n-th call.
struct NthFails : FileCalls {
  int calls = 0, fails = -1;
  template <typename T>
  T at(T result) {
    if (calls++ != fails)
      return result;
    errno = EIO;
    return -1;
  }
  int open(const char *p, int f, unsigned m) override {
    return calls == fails ? at(0) : at(FileCalls::open(p, f, m));
  }
  ssize_t write(int f, const void *d, size_t n) override {
    return calls == fails ? at(ssize_t(0)) : at(FileCalls::write(f, d, n));
  }
  int fsync(int f) override { return calls == fails ? at(0) : at(FileCalls::fsync(f)); }
  int rename(const char *a, const char *b) override {
    return calls == fails ? at(0) : at(FileCalls::rename(a, b));
  }
};

TEST(Metrics, failureAtAnyCallOfAResumeLosesNoLine) {
  for (int n = 0; n < 100; ++n) {
    TemporaryFolder folder;
    writeSteps(folder / "m", 0, 1, 3);
    NthFails calls;
    calls.fails = n;
    FileCalls::replace(&calls);
    std::string what = errorOf([&] { MetricsFile(folder / "m", 3); });
    FileCalls::replace(nullptr);
    EXPECT_EQ(bytesIn(folder / "m"), "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n")
        << "call " << n;
    if (what.empty()) {
      EXPECT_GT(n, 3) << "open, write, fsync, rename and open were made";
      return;
    }
    EXPECT_THAT(what, HasSubstr(folder.path.string()));
  }
  FAIL() << "never came to its end";
}

} // namespace
