// SPDX-License-Identifier: Apache-2.0
// The folder of a run: checkpoints step-N, each whole or not there, and the links `last` and `best`
// to two of them. A save that fails or a process that dies leaves the checkpoints that were there
// as they were. What is in a checkpoint is the caller's business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

namespace ftlm {

/// Saves step-N: `write` puts the files into the folder that it is given. Then moves `last` to it,
/// and only then removes all but the `keep` newest checkpoints (0: keeps all); those of `step` and
/// of `best` stay. What an interrupted save left is removed first.
void saveStep(const std::filesystem::path &run, int64_t step, int keep,
              const std::function<void(const std::filesystem::path &)> &write);

/// Points `best` at step-N.
void markBest(const std::filesystem::path &run, int64_t step);

/// The newest checkpoint that is whole and holds the files of saveCheckpoint; says on standard
/// error which newer ones are not.
std::optional<std::filesystem::path> newestCheckpoint(const std::filesystem::path &run);

/// How many checkpoints a run has, whole or not.
size_t countCheckpoints(const std::filesystem::path &run);

} // namespace ftlm
