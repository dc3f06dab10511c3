// SPDX-License-Identifier: Apache-2.0
// What a model is: the choices of the decoder recipe. Read it from a TOML description
// (docs/models.md) or from the config.json of a Hugging Face folder. A description that was read is
// consistent: heads divide the width, rates are below 1, sizes are positive.
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace ftlm {

enum class Naming { Gpt1, Gpt2 };

/// A decoder-only transformer. Sizes are counts of elements.
struct ModelDescription {
  std::string name;
  Naming naming = Naming::Gpt2;        // how parameters are called in checkpoints
  std::string prefix = "transformer."; // of GPT-2's names
  int64_t vocabulary = 0;              // token ids
  int64_t specials = 0;                // ids after the tokens (GPT-1: start, delimiter, classify)
  int64_t positions = 0;               // position vectors stored
  int64_t width = 0, layers = 0, heads = 0;
  int64_t mlpWidth = 0; // 0 in the file: 4 * width
  std::string activation = "gelu_tanh";
  double epsilon = 1e-5;
  bool preNorm = true; // norm before attention and MLP (GPT-2) or after the residual sum (GPT-1)
  bool finalNorm = true;
  bool softmaxOverPositions =
      false; // GPT-1: the joint table's position rows take part in the softmax
  double embeddingDropout = 0, attentionDropout = 0, residualDropout = 0;
  bool dropoutOnTable = false; // GPT-1: the embedding dropout acts on the table
  double initStddev = 0.02;
  bool scaleResidualInit = true; // residual projections start scaled by 1 / sqrt(2 layers)
  std::string configJson;        // config.json of the checkpoints written
  int64_t defaultBatch = 8, defaultMicroBatch = 8, defaultTime = 0; // 0: all positions
};

/// Reads a TOML description. Errors name the file, the line and what would be right.
llvm::Expected<ModelDescription> readTomlDescription(const std::string &path);

/// Reads `folder`/config.json of a GPT-2 or GPT-1 checkpoint; the prefix of the parameter names
/// comes from the model.safetensors beside it where there is one.
llvm::Expected<ModelDescription> readHuggingFaceFolder(const std::string &folder);

} // namespace ftlm
