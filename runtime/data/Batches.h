// SPDX-License-Identifier: Apache-2.0
// The data of training steps. What step s holds is a function of the options and s alone, so that a
// run can go on anywhere. Worker threads build steps ahead. Nothing of the corpus is dropped: short
// windows and batches are filled up with targets of weight 0, which also the prompts of lines with
// a completion have.
#pragma once

#include "runtime/data/Tokens.h"

#include <algorithm>
#include <memory>

namespace ftlm {

/// What becomes of a line that is longer than the windows of the plan.
enum class Overlong { Error, Cut, Drop };

/// A text of `tokens` tokens in windows of `time` positions: each token but the first is a target
/// once.
struct Windows {
  int64_t tokens, time;
  int64_t count() const { return tokens < 2 ? 0 : (tokens - 1 + time - 1) / time; }
  int64_t begin(int64_t window) const { return window * time; }
  int64_t targets(int64_t window) const { return std::min(time, tokens - 1 - window * time); }
};

struct DataOptions {
  std::vector<std::filesystem::path> files;
  int64_t time = 0, batch = 0, microBatch = 0, vocabulary = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  Overlong overlong = Overlong::Error;
  int workers = 1;  // threads that build steps; 0: next() builds them
  int prefetch = 2; // steps built ahead
};

/// Row-major [microBatch, time]; `examples` are the numbers of the sequences in the step.
struct MicroBatch {
  std::vector<int32_t> tokens, targets;
  std::vector<float> weights;
  std::vector<int32_t> examples;
};

struct StepData {
  std::vector<MicroBatch> microBatches;
  int64_t epoch = 0;
  int64_t tokens = 0; // targets that count; 0: all of the step's are masked, and its weights are 0
  double waitMs = 0;  // how long next() waited for it
};

class BatchSource {
public:
  explicit BatchSource(DataOptions options);
  ~BatchSource();

  int64_t samples() const;
  int64_t stepsPerEpoch() const;
  /// The data of the next step; throws what a worker threw.
  StepData next();
  /// Makes `step` (counted from 0) the next one.
  void seek(int64_t step);
  const std::vector<std::string> &notes() const;
  /// A hash of the contents of the files, whatever the other options.
  const std::string &fingerprint() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ftlm
