// SPDX-License-Identifier: Apache-2.0
// The loss of a model on a corpus, and the signals that end a run. What is counted does not depend
// on the batch: padding has no part in sum or number. Both are polled between batches.
#pragma once

#include "runtime/train/Session.h"

namespace ftlm {

struct EvaluateOptions {
  std::filesystem::path plan;
  std::vector<std::filesystem::path> init, data;
  Overlong overlong = Overlong::Error;
  int threads = 0;
};

/// The sum of the cross-entropies and the number of targets of a corpus; `whole` unless a signal
/// came first.
struct Evaluation {
  double total = 0;
  int64_t tokens = 0;
  bool whole = true;
  double loss() const { return total / static_cast<double>(tokens); }
};

/// The corpus of an evaluation, read once.
class EvaluationData {
public:
  EvaluationData(const plan::Plan &plan, const std::vector<std::filesystem::path> &files,
                 Overlong overlong);
  Evaluation evaluate(Session &session);
  const std::vector<std::string> &notes() const { return source.notes(); }

private:
  BatchSource source;
};

/// SIGINT and SIGTERM set a flag from now on, which `signalled` reads. Call it before threads are
/// started.
void catchSignals();
bool signalled();

} // namespace ftlm
