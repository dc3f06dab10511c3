// SPDX-License-Identifier: Apache-2.0
// Parameters from and to files. Loading accounts for every tensor: all that are missing, unexpected
// or of another shape are listed in one error, and nothing is loaded then. Saving writes a Hugging
// Face folder.
#pragma once

#include "runtime/io/Safetensors.h"

#include <functional>

namespace ftlm {

/// The values of parameter number i of a plan, fp32, in global shape.
using ParameterData = std::function<std::span<float>(size_t parameter)>;

/// What became of the tensors.
struct LoadReport {
  std::vector<std::string> loaded, ignored;
};

/// Each source is a Hugging Face folder, a checkpoint of ours, or a safetensors file; later ones
/// add tensors.
LoadReport loadParameters(std::span<const std::filesystem::path> sources, const plan::Plan &plan,
                          const ParameterData &data);

/// Writes config.json and model.safetensors into `folder`.
void saveModel(const std::filesystem::path &folder, const plan::Plan &plan,
               const ParameterData &data);

} // namespace ftlm
