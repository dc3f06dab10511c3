// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/ModelFiles.h"

#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace ftlm {
namespace {

namespace fs = std::filesystem;

/// A range of rows of a parameter under its name in a file.
struct Piece {
  std::string name;
  size_t parameter;
  int64_t row;
  std::vector<int64_t> shape;
};

std::vector<Piece> piecesOf(const plan::Plan &plan) {
  std::vector<Piece> pieces;
  for (uint32_t i = 0; i < plan.parameters()->size(); ++i) {
    const plan::Parameter &parameter = *plan.parameters()->Get(i);
    std::vector<int64_t> shape(parameter.shape()->begin(), parameter.shape()->end());
    if (!parameter.stored() || parameter.stored()->size() == 0) {
      pieces.push_back({parameter.name()->str(), i, 0, shape});
      continue;
    }
    for (const plan::StoredPiece *stored : *parameter.stored()) {
      std::vector<int64_t> part = shape;
      part[0] = stored->rows();
      pieces.push_back({stored->name()->str(), i, stored->row(), part});
    }
  }
  return pieces;
}

int64_t elementsOf(const std::vector<int64_t> &shape) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  return elements;
}

/// The part of a parameter that a piece names.
std::span<float> partOf(const Piece &piece, std::span<float> whole) {
  int64_t rowElements =
      piece.shape.empty() ? 1 : elementsOf(piece.shape) / std::max<int64_t>(1, piece.shape[0]);
  return whole.subspan(static_cast<size_t>(piece.row * rowElements),
                       static_cast<size_t>(elementsOf(piece.shape)));
}

std::vector<SafetensorsFile> openSources(std::span<const fs::path> sources) {
  std::vector<SafetensorsFile> files;
  for (const fs::path &source : sources) {
    fs::path file = fs::is_directory(source) ? source / "model.safetensors" : source;
    if (!fs::exists(file))
      throw badInput(source.string(),
                     fs::is_directory(source) ? "has no model.safetensors" : "does not exist",
                     "a checkpoint is a Hugging Face folder or a safetensors file");
    files.push_back(SafetensorsFile::open(file));
  }
  return files;
}

bool endsWith(std::string_view text, std::string_view end) {
  return text.ends_with(end);
}

} // namespace

LoadReport loadParameters(std::span<const fs::path> sources, const plan::Plan &plan,
                          const ParameterData &data) {
  std::vector<SafetensorsFile> files = openSources(sources);
  std::vector<std::string> problems;
  std::vector<std::pair<const Piece *, const TensorView *>> moves;
  std::set<const TensorView *> used;
  LoadReport report;
  std::vector<Piece> pieces = piecesOf(plan);
  for (const Piece &piece : pieces) {
    constexpr std::string_view prefix = "transformer.";
    std::string bare = piece.name.starts_with(prefix) ? piece.name.substr(prefix.size())
                                                      : std::string(prefix) + piece.name;
    const TensorView *tensor = nullptr;
    for (const SafetensorsFile &file : files)
      for (const std::string &name : {piece.name, bare})
        if (const TensorView *found = file.find(name))
          tensor = found;
    if (!tensor) {
      problems.push_back(fmt::format("{} is missing", piece.name));
      continue;
    }
    used.insert(tensor);
    if (tensor->shape != piece.shape)
      problems.push_back(fmt::format("{} has shape [{}]; expected [{}]", tensor->name,
                                     fmt::join(tensor->shape, ", "), fmt::join(piece.shape, ", ")));
    else if (tensor->dtype != plan::DType::F32)
      problems.push_back(fmt::format("{} has dtype {}; expected F32", tensor->name,
                                     plan::EnumNameDType(tensor->dtype)));
    else
      moves.push_back({&piece, tensor});
    report.loaded.push_back(tensor->name);
  }
  for (const SafetensorsFile &file : files)
    for (const TensorView &tensor : file.tensors()) {
      if (used.contains(&tensor))
        continue;
      // Causal masks that older checkpoints hold, and the output projection where it is the table
      // again.
      if (endsWith(tensor.name, ".attn.bias") || endsWith(tensor.name, ".attn.masked_bias") ||
          tensor.name == "lm_head.weight")
        report.ignored.push_back(tensor.name);
      else
        problems.push_back(fmt::format("{} is unexpected", tensor.name));
    }
  if (!problems.empty()) {
    std::vector<std::string> names;
    for (const fs::path &source : sources)
      names.push_back(source.string());
    throw badInput(fmt::format("checkpoint {}", fmt::join(names, ", ")),
                   fmt::format("does not fit model {}:\n  {}", plan.model()->str(),
                               fmt::join(problems, "\n  ")),
                   "nothing was loaded; compile the plan from the checkpoint's own folder");
  }
  for (auto [piece, tensor] : moves)
    std::memcpy(partOf(*piece, data(piece->parameter)).data(), tensor->data.data(),
                tensor->data.size());
  return report;
}

void saveModel(const fs::path &folder, const plan::Plan &plan, const ParameterData &data) {
  std::vector<TensorView> tensors;
  for (const Piece &piece : piecesOf(plan))
    tensors.push_back(
        {piece.name, plan::DType::F32, piece.shape,
         std::as_bytes(std::span<const float>(partOf(piece, data(piece.parameter))))});
  writeSafetensors(folder / "model.safetensors", std::move(tensors), {{"format", "pt"}});
  writeFile(folder / "config.json", plan.config_json()->str());
}

} // namespace ftlm
