// SPDX-License-Identifier: Apache-2.0
// `ftlm-run step`: optimizer steps on given tensors, and a dump of losses, gradients and
// parameters, for comparing with a reference.
#pragma once

#include "runtime/train/Schedule.h"
#include "runtime/train/Session.h"

namespace ftlm {

struct StepOptions {
  std::filesystem::path plan, batch, dump, report;
  std::vector<std::filesystem::path> init;
  int64_t steps = 1;
  Schedule schedule;
  Hyper hyper;
  uint64_t seed = 0;
  int threads = 0;
};

void runSteps(const StepOptions &options);

} // namespace ftlm
