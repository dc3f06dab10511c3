// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Metrics.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace ftlm {

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static std::string numberText(double value) {
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{}", value);
}

std::string jsonLine(const MetricLine &line) {
  std::string text;
  for (const auto &[key, value] : line) {
    text += (text.empty() ? "{" : ", ") + nlohmann::json(key).dump() + ": ";
    if (auto *whole = std::get_if<int64_t>(&value))
      text += std::to_string(*whole);
    else if (auto *number = std::get_if<double>(&value))
      text += numberText(*number);
    else
      text += nlohmann::json(std::get<std::string>(value))
                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return text + "}";
}

/// Replaces the file by the part of it that stays; returns its name.
static const std::filesystem::path &keepLines(const std::filesystem::path &path,
                                              int64_t keepSteps) {
  std::string kept;
  if (keepSteps > 0 && std::filesystem::exists(path)) {
    std::string text = readText(path);
    // A line without its end was cut off as it was written.
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      std::string line = text.substr(at, end - at);
      size_t key = line.find("\"step\": ");
      if (key != std::string::npos &&
          std::strtoll(line.c_str() + key + 8, nullptr, 10) <= keepSteps)
        kept += line + "\n";
    }
  }
  makeFolders(std::filesystem::absolute(path).parent_path());
  writeFile(path, kept);
  return path;
}

MetricsFile::MetricsFile(const std::filesystem::path &path, int64_t keepSteps)
    : file(keepLines(path, keepSteps)) {}

void MetricsFile::write(const MetricLine &line) {
  file.append(jsonLine(line) + "\n");
}

Progress::Progress(int64_t all, std::string name)
    : total(all), unit(std::move(name)), terminal(isatty(STDERR_FILENO) == 1), started(now()) {}

void Progress::update(int64_t done, const std::string &text) {
  double time = now();
  // A terminal is redrawn ten times a second at most, a log gets a line every ten seconds.
  if (time - shown < (terminal ? 0.1 : 10.0) && done != total)
    return;
  shown = time;
  double left =
      done > 0 ? (time - started) / static_cast<double>(done) * static_cast<double>(total - done)
               : 0;
  std::string rest = fmt::format("{} {}/{} {}  {:.0f} s left", unit, done, total, text, left);
  if (!terminal) {
    fmt::print(stderr, "{}\n", rest);
    return;
  }
  constexpr int64_t width = 24;
  int64_t full = total > 0 ? done * width / total : width;
  fmt::print(stderr, "\r\x1b[K[{}{}] {}", std::string(static_cast<size_t>(full), '#'),
             std::string(static_cast<size_t>(width - full), '.'), rest);
  std::fflush(stderr);
  open = true;
}

void Progress::finish() {
  if (open)
    fmt::print(stderr, "\n");
  open = false;
}

} // namespace ftlm
