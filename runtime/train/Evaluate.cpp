// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Evaluate.h"

#include <atomic>
#include <csignal>
#include <thread>

namespace ftlm {

static std::atomic<bool> signalFlag = false;

// A thread of its own waits for the signals, and all others block them: the matrix products'
// generated code keeps data below the stack pointer, where a handler would write over it.
void catchSignals() {
  static bool once = [] {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::thread([signals] {
      for (int number; sigwait(&signals, &number) == 0;)
        signalFlag = true;
    }).detach();
    return true;
  }();
  (void)once;
}
bool signalled() {
  return signalFlag;
}

static DataOptions evaluationOptions(const plan::Plan &plan,
                                     const std::vector<std::filesystem::path> &files,
                                     Overlong overlong) {
  DataOptions options;
  options.files = files;
  options.time = plan.time();
  options.batch = options.microBatch = plan.micro_batch();
  options.vocabulary = plan.vocabulary();
  options.shuffle = false;
  options.overlong = overlong;
  options.workers = 0;
  return options;
}

EvaluationData::EvaluationData(const plan::Plan &plan,
                               const std::vector<std::filesystem::path> &files, Overlong overlong)
    : source(evaluationOptions(plan, files, overlong)) {}

Evaluation EvaluationData::evaluate(Session &session) {
  Evaluation result;
  source.seek(0);
  for (int64_t i = 0; i < source.stepsPerEpoch(); ++i) {
    if (signalled()) {
      result.whole = false;
      break;
    }
    StepData data = source.next();
    // Weights of 1: the program's loss is then the sum of the cross-entropies.
    for (float &weight : data.microBatches[0].weights)
      weight = weight > 0 ? 1.0f : 0.0f;
    result.total += session.evaluate(data.microBatches[0]);
    result.tokens += data.tokens;
  }
  return result;
}

} // namespace ftlm
