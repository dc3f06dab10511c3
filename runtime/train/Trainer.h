// SPDX-License-Identifier: Apache-2.0
// The training loop: steps, evaluations, samples, checkpoints, metrics; exact resume; stops on
// signals after saving.
#pragma once

#include "runtime/train/Evaluate.h"
#include "runtime/train/Schedule.h"

namespace ftlm {

struct TrainOptions {
  std::filesystem::path plan, out, metrics, report;
  std::vector<std::filesystem::path> data, valid, init;
  Overlong overlong = Overlong::Error;
  int64_t steps = 0; // 0: as many as `epochs` have
  double epochs = 1;
  Schedule schedule;
  Hyper hyper;
  uint64_t seed = 0;
  int64_t evalEvery = 0, saveEvery = 0;
  int64_t sampleEvery = 0, sampleTokens = 64;
  std::string samplePrompt;
  int keep = 3;
  bool resume = false;
  std::vector<std::string> overrides; // settings that a resumed run may change
  int threads = 0, workers = 1, prefetch = 2;
  double maxTime = 0;    // seconds; 0: none
  double peakTflops = 0; // of the machine, for the MFU; 0: not known
};

/// Returns the exit code: 0, or 75 when a signal (or --max-time) ended the run after saving.
int train(const TrainOptions &options);

} // namespace ftlm
