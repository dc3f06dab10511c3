// SPDX-License-Identifier: Apache-2.0
// Parameters from and to files. Loading accounts for every tensor: all that are missing,
// unexpected, given twice, or of another shape or dtype are listed in one error, and nothing is
// loaded then. Saving writes a Hugging Face folder.
#pragma once

#include "runtime/io/Safetensors.h"

#include <functional>

namespace ftlm {

/// The values of parameter number i of a plan, fp32, in global shape.
using ParameterData = std::function<std::span<float>(size_t parameter)>;

/// What became of the tensors. Three kinds are no parameters and stay unread: the causal masks of
/// GPT-2's attention (h.N.attn.bias and masked_bias, of any dtype), `lm_head.weight` where it
/// equals the table that it is tied to, and `position_ids`.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> ignored; // worth a line: all unread ones but masks and tied copies
};

/// Each source is a Hugging Face folder, a checkpoint of ours, or a safetensors file; later ones
/// add tensors.
LoadReport loadParameters(std::span<const std::filesystem::path> sources, const plan::Plan &plan,
                          const ParameterData &data);

/// Writes config.json and model.safetensors into `folder`.
void saveModel(const std::filesystem::path &folder, const plan::Plan &plan,
               const ParameterData &data);

} // namespace ftlm
