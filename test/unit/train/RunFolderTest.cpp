// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run under faults: every call of a save fails once, the disk stays full from
// it on, or the process dies there. Each time the newest whole checkpoint must load, links must
// lead to whole ones, and the next save must work and clean up.
#include "runtime/train/RunFolder.h"
#include "runtime/io/FileCalls.h"
#include "runtime/io/Folder.h"
#include "runtime/io/Safetensors.h"
#include "test/unit/support/TemporaryFolder.h"

#include <gmock/gmock.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

using namespace ftlm;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

enum class Fault { Once, FromThenOn, Death };

/// The system's calls until call number `at`, where the fault happens; a write does half of its
/// work first.
class FaultyCalls : public FileCalls {
public:
  FaultyCalls(int at, Fault fault, int error) : at(at), fault(fault), error(error) {}
  int made() const { return calls; }

  int open(const char *p, int f, unsigned m) override {
    return strikes() ? -1 : FileCalls::open(p, f, m);
  }
  ssize_t write(int file, const void *data, size_t bytes) override {
    if (calls == at)
      (void)!FileCalls::write(file, data, bytes / 2);
    return strikes() ? -1 : FileCalls::write(file, data, bytes);
  }
  int fsync(int file) override { return strikes() ? -1 : FileCalls::fsync(file); }
  int rename(const char *a, const char *b) override {
    return strikes() ? -1 : FileCalls::rename(a, b);
  }
  int exchange(const char *a, const char *b) override {
    return strikes() ? -1 : FileCalls::exchange(a, b);
  }
  int mkdir(const char *p, unsigned m) override { return strikes() ? -1 : FileCalls::mkdir(p, m); }
  int symlink(const char *t, const char *l) override {
    return strikes() ? -1 : FileCalls::symlink(t, l);
  }
  int remove(const char *p) override { return strikes() ? -1 : FileCalls::remove(p); }

private:
  bool strikes() {
    int call = calls++;
    if (call < at || (call > at && fault != Fault::FromThenOn))
      return false;
    if (fault == Fault::Death)
      _exit(99);
    errno = error;
    return true;
  }
  int calls = 0, at;
  Fault fault;
  int error;
};

/// A checkpoint whose contents name its step and the attempt.
void save(const fs::path &run, int64_t step, int keep, const std::string &attempt = "first") {
  saveStep(run, step, keep, [&](const fs::path &folder) {
    std::vector<float> values = {static_cast<float>(step), 2, 3};
    for (const char *name : {"model.safetensors", "training.safetensors"})
      writeSafetensors(
          folder / name,
          {{"t", plan::DType::F32, {3}, std::as_bytes(std::span<const float>(values))}});
    writeFile(folder / "state.json", attempt);
  });
}

std::set<std::string> namesIn(const fs::path &run) {
  std::set<std::string> names;
  for (auto &entry : fs::directory_iterator(run))
    names.insert(entry.path().filename());
  return names;
}

bool isWhole(const fs::path &folder) {
  return errorOf([&] { verifyFolder(folder, {"model.safetensors", "state.json"}); }).empty();
}

/// A run in a state from which step 30 is saved, and what its newest checkpoint is before and
/// after.
struct Scenario {
  const char *name;
  std::function<void(const fs::path &)> prepare;
  int keep;
  std::string before; // "" : none
};

const Scenario scenarios[] = {
    {"first checkpoint", [](const fs::path &run) { fs::create_directories(run); }, 2, ""},
    {"the only older one goes", [](const fs::path &run) { save(run, 20, 1); }, 1, "step-20"},
    {"several, of which one is the best",
     [](const fs::path &run) {
       for (int64_t step : {5, 10, 15, 20})
         save(run, step, 0);
       markBest(run, 5);
     },
     2, "step-20"},
    {"the same step again", [](const fs::path &run) { save(run, 30, 1); }, 1, "step-30"},
    {"beside what a killed save left",
     [](const fs::path &run) {
       save(run, 20, 2);
       fs::create_directories(run / ".tmp-step-25");
       put(run / ".tmp-step-25/model.safetensors", "half");
       fs::create_directories(run / ".tmp-step-30/sub");
     },
     2, "step-20"}};

/// Checks a run after a save of step 30 that ended or not.
void check(const fs::path &run, const Scenario &scenario, bool ended) {
  std::optional<fs::path> newest = newestCheckpoint(run);
  ASSERT_TRUE(newest || (scenario.before.empty() && !ended)) << "no checkpoint is left";
  if (newest) {
    EXPECT_TRUE(newest->filename() == "step-30" ||
                (!ended && newest->filename() == scenario.before))
        << *newest;
    std::string attempt = bytesIn(*newest / "state.json");
    EXPECT_TRUE(attempt == "second" || (!ended && attempt == "first")) << attempt;
  }
  for (const char *link : {"last", "best"})
    if (fs::is_symlink(run / link)) {
      EXPECT_TRUE(isWhole(run / link)) << link << " leads nowhere";
    }
  // Whatever has a checkpoint's name is whole.
  for (const std::string &name : namesIn(run))
    if (name.starts_with("step-")) {
      EXPECT_TRUE(isWhole(run / name)) << name;
    }
  // The run goes on.
  save(run, 40, scenario.keep);
  EXPECT_EQ(newestCheckpoint(run)->filename(), "step-40");
  for (const std::string &name : namesIn(run))
    EXPECT_TRUE(name.starts_with("step-") || name == "last" || name == "best")
        << name << " is left";
}

class FaultsOfASave : public testing::TestWithParam<std::tuple<Fault, int>> {};

TEST_P(FaultsOfASave, leaveAWholeCheckpoint) {
  auto [fault, error] = GetParam();
  for (const Scenario &scenario : scenarios)
    for (int n = 0;; ++n) {
      SCOPED_TRACE(testing::Message() << scenario.name << ", call " << n);
      ASSERT_LT(n, 1000);
      TemporaryFolder folder;
      fs::path run = folder / "run";
      scenario.prepare(run);
      FaultyCalls calls(n, fault, error);
      bool ended = false;
      pid_t child = fault == Fault::Death ? fork() : -1;
      if (child <= 0) {
        FileCalls::replace(&calls);
        std::string what = errorOf([&] { save(run, 30, scenario.keep, "second"); });
        FileCalls::replace(nullptr);
        if (child == 0)
          _exit(what.empty() ? 0 : 1);
        ended = what.empty();
        EXPECT_TRUE(ended || what.find(run.string()) != std::string::npos) << what;
      } else {
        int status = 0;
        waitpid(child, &status, 0);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_NE(WEXITSTATUS(status), 1) << "failed without a fault";
        ended = WEXITSTATUS(status) == 0;
      }
      bool beyond = fault == Fault::Death ? ended : calls.made() <= n;
      check(run, scenario, ended);
      if (HasFatalFailure() || beyond) {
        EXPECT_GT(n, 15) << "a save has more calls than that";
        break;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(EveryCall, FaultsOfASave,
                         testing::Values(std::tuple(Fault::Once, ENOSPC),
                                         std::tuple(Fault::Once, EIO),
                                         std::tuple(Fault::FromThenOn, ENOSPC),
                                         std::tuple(Fault::Death, 0)));

TEST(RunFolder, newestIsByStepNotByName) {
  TemporaryFolder run;
  for (int64_t step : {9, 100, 20})
    save(run.path, step, 0);
  EXPECT_EQ(newestCheckpoint(run.path)->filename(), "step-100");
  EXPECT_EQ(fs::read_symlink(run / "last"), "step-20"); // what was saved last
}

TEST(RunFolder, damagedCheckpointsAreNotTaken) {
  for (const char *file :
       {"model.safetensors", "training.safetensors", "state.json", "manifest.json"})
    for (const char *damage : {"cut", "missing", "flipped"}) {
      TemporaryFolder run;
      save(run.path, 1, 0);
      save(run.path, 2, 0);
      std::string bytes = bytesIn(run / "step-2" / file);
      if (damage == std::string("cut"))
        bytes.pop_back();
      else
        bytes[bytes.size() / 2] ^= 1;
      damage == std::string("missing") ? void(fs::remove(run / "step-2" / file))
                                       : void(put(run / "step-2" / file, bytes));
      testing::internal::CaptureStderr();
      std::optional<fs::path> newest = newestCheckpoint(run.path);
      std::string said = testing::internal::GetCapturedStderr();
      ASSERT_TRUE(newest);
      // A manifest that says the same in other words may pass; no other file.
      if (newest->filename() != "step-1")
        EXPECT_STREQ(file, "manifest.json") << damage;
      else
        EXPECT_THAT(said, HasSubstr("step-2"));
    }
}

TEST(RunFolder, namesThatAreNoCheckpoints) {
  TemporaryFolder run;
  save(run.path, 1, 0);
  for (const char *name : {"step-", "step-x", "step-2x", "step--3", "step-007", "step-+7",
                           "step-99999999999999999999999", ".tmp-step-9", "my-step-8"})
    fs::copy(run / "step-1", run / name);
  put(run / "step-50", "a file");
  testing::internal::CaptureStderr();
  std::optional<fs::path> newest = newestCheckpoint(run.path);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(newest->filename(), "step-1");
}

TEST(RunFolder, noFolderHasNoCheckpoint) {
  TemporaryFolder run;
  EXPECT_FALSE(newestCheckpoint(run / "none"));
  EXPECT_EQ(countCheckpoints(run / "none"), 0u);
}

TEST(RunFolder, keepsTheNewestAndTheBestBesideThem) {
  TemporaryFolder run;
  for (int64_t step = 1; step <= 5; ++step) {
    save(run.path, step, 2);
    if (step == 2)
      markBest(run.path, step);
  }
  EXPECT_THAT(namesIn(run.path), ElementsAre("best", "last", "step-2", "step-4", "step-5"));
  save(run.path, 6, 1);
  EXPECT_THAT(namesIn(run.path), ElementsAre("best", "last", "step-2", "step-6"));
  EXPECT_EQ(countCheckpoints(run.path), 2u);
  TemporaryFolder all;
  for (int64_t step = 1; step <= 5; ++step)
    save(all.path, step, 0);
  EXPECT_EQ(countCheckpoints(all.path), 5u);
}

} // namespace
