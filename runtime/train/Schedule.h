// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: a factor of the peak rate as a function of the updates done, and of
// nothing else.
#pragma once

#include <cstdint>
#include <string>

namespace ftlm {

/// With x = done / total and w = warm-up as a fraction of total (a value of 1 or more is a number
/// of updates): while w > 0 and x <= w the factor is x / w; after it `linear` gives 1 - x (and in
/// the warm-up x / w * (1 - x)), `cosine` (1 + cos(pi x)) / 2, `constant` 1. The rate is never
/// below `minimum` after the warm-up. x is at most 1, and total 0 counts as 1.
///
/// `constant` with peak 1 and total 4, updates done 0, 1, 2, 3:
///   warm-up 0   1    1    1    1
///   warm-up 1   0    1    1    1
///   warm-up 4   0    1/4  2/4  3/4     the peak would be the rate of the update after the last
///   warm-up 8   0    1/8  2/8  3/8     and is never reached
struct Schedule {
  std::string kind = "linear";
  double peak = 6.25e-5, minimum = 0, warmup = 0.002;
  int64_t total = 1;

  /// The learning rate of the update after `done` updates.
  double rate(int64_t done) const;
  /// Whether the warm-up ends before the last update does.
  bool reachesPeak() const;
};

} // namespace ftlm
