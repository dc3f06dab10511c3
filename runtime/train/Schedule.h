// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: a factor of the peak rate as a function of the updates done, and of
// nothing else.
#pragma once

#include <cstdint>
#include <string>

namespace ftlm {

/// With x = done / total and w = warm-up as a fraction of total (a value of 1 or more is a number
/// of updates): while x <= w and w > 0 the factor is x / w; after it `linear` gives 1 - x (and in
/// the warm-up x / w * (1 - x)), `cosine` (1 + cos(pi x)) / 2, `constant` 1. The rate is never
/// below `minimum` after the warm-up.
struct Schedule {
  std::string kind = "linear";
  double peak = 6.25e-5, minimum = 0, warmup = 0.002;
  int64_t total = 1;

  /// The learning rate of the update after `done` updates.
  double rate(int64_t done) const;
};

} // namespace ftlm
