// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/ModelFiles.h"

#include <algorithm>
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

/// The name without the prefix that Hugging Face's body of GPT-2 has.
std::string_view bareName(std::string_view name) {
  constexpr std::string_view prefix = "transformer.";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// Whether a tensor is a buffer that GPT-2's implementation stores with the weights: the causal
/// mask of a layer, or the number that it puts where the mask is not set.
bool isCausalMask(const TensorView &tensor) {
  std::string_view name = bareName(tensor.name);
  size_t rank = tensor.shape.size();
  if (!name.starts_with("h."))
    return false;
  name.remove_prefix(2);
  size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  bool square = rank >= 2 && tensor.shape[rank - 1] == tensor.shape[rank - 2];
  return digits > 0 && ((name == ".attn.bias" && square) ||
                        (name == ".attn.masked_bias" && elementsOf(tensor.shape) == 1));
}

/// Finds the tensors of the pieces, and says what is wrong with the checkpoint.
class Matcher {
public:
  Matcher(std::span<const fs::path> sources, const std::vector<SafetensorsFile> &files,
          const std::vector<Piece> &pieces)
      : sources(sources), files(files), pieces(pieces) {}

  void run() {
    for (const Piece &piece : pieces)
      match(piece);
    for (size_t i = 0; i < files.size(); ++i)
      for (const TensorView &tensor : files[i].tensors())
        if (!used.contains(&tensor))
          unread(tensor, sources[i]);
  }

  std::vector<std::string> problems;
  std::vector<std::pair<const Piece *, const TensorView *>> moves;
  LoadReport report;

private:
  void match(const Piece &piece) {
    const TensorView *tensor = nullptr;
    for (size_t i = 0; i < files.size(); ++i)
      for (const std::string &name :
           {std::string(bareName(piece.name)), "transformer." + std::string(bareName(piece.name))})
        if (const TensorView *found = files[i].find(name)) {
          if (tensor)
            problems.push_back(fmt::format("{} is given twice, also by {} in {}", tensor->name,
                                           found->name, sources[i].string()));
          tensor = found;
          used.insert(found);
        }
    if (!tensor) {
      problems.push_back(fmt::format("{} is missing", piece.name));
      return;
    }
    if (tensor->shape != piece.shape)
      problems.push_back(fmt::format("{} has shape [{}]; expected [{}]", tensor->name,
                                     fmt::join(tensor->shape, ", "), fmt::join(piece.shape, ", ")));
    else if (tensor->dtype != plan::DType::F32)
      problems.push_back(
          fmt::format("{} has dtype {}; expected F32", tensor->name, tensor->dtypeName()));
    else
      moves.push_back({&piece, tensor});
    report.loaded.push_back(tensor->name);
  }

  void unread(const TensorView &tensor, const fs::path &source) {
    if (tensor.name == "lm_head.weight")
      tiedCopy(tensor);
    else if (bareName(tensor.name) == "position_ids")
      report.ignored.push_back(tensor.name);
    else if (!isCausalMask(tensor))
      problems.push_back(fmt::format("{} is unexpected (in {})", tensor.name, source.string()));
  }

  /// The output projection is the table of the tokens; a copy of it must say the same.
  void tiedCopy(const TensorView &head) {
    auto table = std::find_if(moves.begin(), moves.end(), [](auto &move) {
      std::string_view name = bareName(move.first->name);
      return name == "wte.weight" || name == "tokens_embed.weight";
    });
    if (table == moves.end()) {
      problems.push_back(fmt::format("{} has no table that it is tied to", head.name));
      return;
    }
    const TensorView &other = *table->second;
    auto text = [](const TensorView &t) {
      return fmt::format("{} [{}]", t.dtypeName(), fmt::join(t.shape, ", "));
    };
    if (head.dtype != other.dtype || head.shape != other.shape)
      problems.push_back(fmt::format("{} is {}, but the table that it is tied to, {}, is {}",
                                     head.name, text(head), other.name, text(other)));
    else if (!std::equal(head.data.begin(), head.data.end(), other.data.begin()))
      problems.push_back(
          fmt::format("{} differs from {}, to which it is tied; an untied output is not supported",
                      head.name, other.name));
  }

  std::span<const fs::path> sources;
  const std::vector<SafetensorsFile> &files;
  const std::vector<Piece> &pieces;
  std::set<const TensorView *> used;
};

} // namespace

LoadReport loadParameters(std::span<const fs::path> sources, const plan::Plan &plan,
                          const ParameterData &data) {
  std::vector<SafetensorsFile> files = openSources(sources);
  std::vector<Piece> pieces = piecesOf(plan);
  Matcher matcher(sources, files, pieces);
  matcher.run();
  if (!matcher.problems.empty()) {
    std::vector<std::string> names;
    for (const fs::path &source : sources)
      names.push_back(source.string());
    throw badInput(fmt::format("checkpoint {}", fmt::join(names, ", ")),
                   fmt::format("does not fit model {}:\n  {}", plan.model()->str(),
                               fmt::join(matcher.problems, "\n  ")),
                   "nothing was loaded; compile the plan from the checkpoint's own folder");
  }
  for (auto [piece, tensor] : matcher.moves)
    std::memcpy(partOf(*piece, data(piece->parameter)).data(), tensor->data.data(),
                tensor->data.size());
  return std::move(matcher.report);
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
