// SPDX-License-Identifier: Apache-2.0
// The one error type of the runtime. Throw it with where it happened, what was found, and what to
// do; ftlm-run prints the three parts and ends with the exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace ftlm {

/// The exit codes of ftlm's programs.
enum class ExitCode {
  Done = 0,
  BadInput = 2,    // wrong use or bad input
  Unsupported = 3, // cannot be done: does not fit, not supported on this machine
  Failed = 4,      // failed while running
  Stopped = 75     // stopped by a signal after saving: run it again
};

/// An error with a place ("book.csv:17", "plan gpt1.ftlm: instruction 12"), what was found there
/// and what would be right ("" when the first two say it).
class Error : public std::runtime_error {
public:
  Error(ExitCode code, std::string where, std::string what, std::string hint = "")
      : std::runtime_error(where + ": " + what + (hint.empty() ? "" : "\n  hint: " + hint)),
        code(code), where(std::move(where)), found(std::move(what)), hint(std::move(hint)) {}

  const ExitCode code;
  const std::string where, found, hint;
};

/// Bad input: the usual case.
inline Error badInput(std::string where, std::string what, std::string hint = "") {
  return Error(ExitCode::BadInput, std::move(where), std::move(what), std::move(hint));
}

/// A check that stays in release builds; for what only a fault of ours can violate.
#define FTLM_CHECK(condition, what)                                                                \
  do {                                                                                             \
    if (!(condition))                                                                              \
      throw ::ftlm::Error(::ftlm::ExitCode::Failed, __FILE__, what, "this is a fault in ftlm");    \
  } while (false)

} // namespace ftlm
