// SPDX-License-Identifier: Apache-2.0
// The commands of ftlm-run: each adds its options to the program and returns what to run when it
// was chosen. What runs returns the exit code or throws ftlm::Error.
#pragma once

#include "runtime/data/Batches.h"

#include <CLI/CLI.hpp>
#include <functional>

namespace ftlm {

using Command = std::function<int()>;

Command addTrain(CLI::App &app);
Command addStep(CLI::App &app);
Command addEvaluate(CLI::App &app);
Command addGenerate(CLI::App &app);
Command addInspect(CLI::App &app);
Command addTokenize(CLI::App &app);
Command addDoctor(CLI::App &app);

/// --overlong, which commands that read data share.
void addOverlong(CLI::App &app, Overlong &overlong);

} // namespace ftlm
