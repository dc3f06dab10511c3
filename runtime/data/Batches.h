// SPDX-License-Identifier: Apache-2.0
// The data of training steps. What step s holds is a function of the options and s alone, so that a
// run can go on anywhere. Worker threads build steps ahead. Nothing of the corpus is dropped: short
// windows and batches are filled up with targets of weight 0.
#pragma once

#include "runtime/data/Tokens.h"

#include <memory>

namespace ftlm {

struct DataOptions {
  std::vector<std::filesystem::path> files;
  int64_t time = 0, batch = 0, microBatch = 0, vocabulary = 0;
  uint64_t seed = 0;
  bool shuffle = true;
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
  int64_t tokens = 0; // real targets
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
  /// A hash of the contents and of the options that decide what a step holds.
  std::string fingerprint() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ftlm
