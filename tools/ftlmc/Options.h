// SPDX-License-Identifier: Apache-2.0
// The command line of ftlmc. Parse it first; what comes back is checked word by word, and
// everything that ftlm cannot do yet has been refused with what works. Nothing here knows MLIR.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ftlm {

struct CompilerOptions {
  std::string model;                           // a name, a file or a folder
  std::string output;                          // the plan file; empty: none is written
  std::string emit;                            // a form to print; empty: none
  std::string optimizer;                       // as the lm dialect spells it
  int64_t batch = 0, microBatch = 0, time = 0; // 0: the model's default
  int64_t threads = 0;                         // 0: one for each processor
  std::optional<double> dropout;
  bool explain = false, json = false;
  bool statistics = false, timing = false, printAfterAll = false;
};

/// Reads the command line into `options`. Returns the exit code when the program is to end now:
/// after help or the version, or after a mistake, which has been printed.
std::optional<int> parseCommandLine(int argc, const char *const *argv, CompilerOptions &options);

} // namespace ftlm
