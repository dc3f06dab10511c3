// SPDX-License-Identifier: Apache-2.0
// The training loop: steps, evaluations, checkpoints, metrics; exact resume; stops on signals after
// saving.
#pragma once

#include "runtime/train/Schedule.h"
#include "runtime/train/Session.h"

#include <filesystem>
#include <optional>
#include <vector>

namespace ftlm {

struct TrainOptions {
  std::filesystem::path plan, out, metrics, report;
  std::vector<std::filesystem::path> data, valid, init;
  int64_t steps = 0; // 0: as many as `epochs` have
  double epochs = 1;
  Schedule schedule;
  Hyper hyper;
  uint64_t seed = 0;
  int64_t evalEvery = 0, saveEvery = 0;
  int keep = 3;
  bool resume = false;
  std::vector<std::string> overrides; // settings that a resumed run may change
  int threads = 0, workers = 1, prefetch = 2;
  double maxTime = 0; // seconds; 0: none
};

/// Returns the exit code: 0, or 75 when a signal (or --max-time) ended the run after saving.
int train(const TrainOptions &options);

struct EvaluateOptions {
  std::filesystem::path plan;
  std::vector<std::filesystem::path> init, data;
  int threads = 0;
};

/// The sum of the cross-entropies and the number of targets of a corpus. Polls for signals.
struct Evaluation {
  double total = 0;
  int64_t tokens = 0;
  double loss() const { return total / static_cast<double>(tokens); }
};
Evaluation evaluateCorpus(Session &session, const std::vector<std::filesystem::path> &data);

/// SIGINT and SIGTERM set a flag from now on, which `signalled` reads. Call it before threads are
/// started.
void catchSignals();
bool signalled();

} // namespace ftlm
