// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Schedule.h"

#include <algorithm>
#include <cmath>

namespace ftlm {

/// The warm-up as a fraction of all updates.
static double warmFraction(const Schedule &schedule) {
  auto total = static_cast<double>(std::max<int64_t>(1, schedule.total));
  return schedule.warmup >= 1 ? schedule.warmup / total : schedule.warmup;
}

double Schedule::rate(int64_t done) const {
  double x =
      std::min(1.0, static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, total)));
  double w = warmFraction(*this);
  bool warm = w > 0 && x <= w;
  double factor = warm ? x / w : 1;
  if (kind == "linear")
    factor *= 1 - x;
  else if (kind == "cosine" && !warm)
    factor = (1 + std::cos(M_PI * x)) / 2;
  double rate = peak * factor;
  return warm ? rate : std::max(rate, minimum);
}

bool Schedule::reachesPeak() const {
  return warmFraction(*this) * static_cast<double>(total) <= static_cast<double>(total - 1);
}

} // namespace ftlm
