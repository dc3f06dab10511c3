// SPDX-License-Identifier: Apache-2.0
// A plan with its state in memory: what training, evaluation, generation and single steps share.
// Makes the executor, fills parameters, runs one optimizer step or one evaluation batch.
#pragma once

#include "runtime/data/Batches.h"
#include "runtime/executor/Executor.h"
#include "runtime/io/ModelFiles.h"
#include "runtime/plan/LoadedPlan.h"

namespace ftlm {

/// The numbers of the update rule; plan.fbs (hyper).
struct Hyper {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0.01, clip = 1;
};

struct StepResult {
  double loss = 0, gradNorm = 0;
};

class Session {
public:
  /// `threads` 0: as many as the plan and the machine have.
  Session(const std::filesystem::path &plan, int threads);

  const plan::Plan &plan() const { return loaded.get(); }
  const std::string &hash() const { return loaded.hash(); }
  Executor &executor() { return *run; }
  size_t parameters() const { return loaded.get().parameters()->size(); }

  /// Loads parameters; all of them must be there.
  LoadReport load(std::span<const std::filesystem::path> sources);
  /// Draws fresh parameters.
  void initialize(uint64_t seed);

  /// The program for a purpose; an error that names the purpose and those that the plan has when
  /// there is none.
  const plan::Program &require(plan::Purpose purpose) const;

  /// Runs the training program once: all micro-batches of step `step` and one update. `rate` is the
  /// learning rate and `updates` how many updates were done before.
  StepResult step(const StepData &data, int64_t step, uint64_t seed, double rate, int64_t updates,
                  const Hyper &hyper);

  /// The loss of one micro-batch, without dropout.
  double evaluate(const MicroBatch &data);

  /// Peak resident memory of the process, in bytes.
  static uint64_t peakResidentBytes();

private:
  void fill(plan::Purpose purpose, std::span<const MicroBatch> microBatches);

  std::string name; // of the plan's file
  LoadedPlan loaded;
  std::unique_ptr<Executor> run;
};

/// The sum of values in a binary tree over their numbers: the same tree as for gradients.
double treeSum(std::span<const float> values);

} // namespace ftlm
