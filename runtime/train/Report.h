// SPDX-License-Identifier: Apache-2.0
// What `train` and `step` say about the work done: the report that --report asks for, and the steps
// whose targets are all masked. The report has the names of `inspect --json`, so that promises and
// counts can be compared.
#pragma once

#include "runtime/train/Session.h"

namespace ftlm {

/// Counts the steps that have no target: their gradient is zero. The first is told on standard
/// error, and their number at the end.
class MaskedSteps {
public:
  explicit MaskedSteps(int64_t before = 0) : steps(before) {}
  void add(int64_t step);
  void finish() const;
  int64_t count() const { return steps; }

private:
  int64_t steps;
  bool told = false;
};

/// Writes what was allocated and counted as JSON.
void writeReport(const std::filesystem::path &path, Session &session, int64_t steps,
                 int64_t maskedSteps);

} // namespace ftlm
