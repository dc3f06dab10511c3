// SPDX-License-Identifier: Apache-2.0
// What a run tells: JSON lines for programs (one an update, one an evaluation), and for people a
// bar on a terminal or plain lines elsewhere. NaN and infinities are written as such, as Python's
// json does.
#pragma once

#include "runtime/io/Files.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ftlm {

using MetricValue = std::variant<int64_t, double, std::string>;
using MetricLine = std::vector<std::pair<std::string, MetricValue>>;

/// One JSON object.
std::string jsonLine(const MetricLine &line);

class MetricsFile {
public:
  /// Appends to the file. Of what is there, the lines of steps up to `keepSteps` stay (of a run
  /// that is resumed; 0: none), whole lines only. The file is replaced at once: a process that dies
  /// here loses none of them.
  MetricsFile(const std::filesystem::path &path, int64_t keepSteps);
  void write(const MetricLine &line);

private:
  AppendedFile file;
};

/// A bar with the share done, the time left and a text; plain lines now and then where standard
/// error is no terminal.
class Progress {
public:
  Progress(int64_t total, std::string unit);
  void update(int64_t done, const std::string &text);
  /// Ends the bar's line, so that other output starts on one of its own.
  void finish();

private:
  int64_t total;
  std::string unit;
  bool terminal, open = false;
  double started, shown = -1e9;
};

} // namespace ftlm
