// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/Safetensors.h"

#include "runtime/io/SafetensorsHeader.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ftlm {
namespace {

constexpr size_t maxHeaderBytes = 100'000'000;

/// A dtype of the format: its name, the bits of an element, and what it is in a plan.
struct Format {
  std::string_view name;
  unsigned bits;
  std::optional<plan::DType> dtype;
};

constexpr Format formats[] = {{"F32", 32, plan::DType::F32},
                              {"BF16", 16, plan::DType::BF16},
                              {"F16", 16, plan::DType::F16},
                              {"F64", 64, plan::DType::F64},
                              {"I32", 32, plan::DType::I32},
                              {"I64", 64, plan::DType::I64},
                              {"U8", 8, plan::DType::U8},
                              {"BOOL", 8, {}},
                              {"I8", 8, {}},
                              {"I16", 16, {}},
                              {"U16", 16, {}},
                              {"U32", 32, {}},
                              {"U64", 64, {}},
                              {"C64", 64, {}},
                              {"F8_E5M2", 8, {}},
                              {"F8_E4M3", 8, {}},
                              {"F8_E8M0", 8, {}},
                              {"F8_E4M3FNUZ", 8, {}},
                              {"F8_E5M2FNUZ", 8, {}},
                              {"F6_E2M3", 6, {}},
                              {"F6_E3M2", 6, {}},
                              {"F4", 4, {}}};

std::string_view nameOf(plan::DType dtype) {
  return std::find_if(std::begin(formats), std::end(formats),
                      [&](const Format &f) { return f.dtype == dtype; })
      ->name;
}

/// Names what a file is that is no safetensors file.
std::string guess(std::span<const std::byte> bytes) {
  std::string_view head(reinterpret_cast<const char *>(bytes.data()),
                        std::min<size_t>(bytes.size(), 64));
  if (head.starts_with("version https://git-lfs"))
    return "is a git-lfs pointer: the weights themselves were not downloaded";
  if (head.starts_with("PK\x03\x04"))
    return "is a zip archive, perhaps a PyTorch checkpoint; only safetensors are read";
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return "is a Python pickle; only safetensors are read";
  if (size_t text = head.find_first_not_of(" \t\r\n"); text != std::string_view::npos)
    for (std::string_view page : {"<!doctype", "<html", "<head", "<?xml"})
      if (std::string_view start = head.substr(text, page.size());
          std::equal(start.begin(), start.end(), page.begin(), page.end(), [](char l, char r) {
            return (l >= 'A' && l <= 'Z' ? static_cast<char>(l + 32) : l) == r;
          }))
        return "is an HTML page, perhaps of a failed download";
  return "";
}

/// The length of the header. The first bytes of another kind of file are a length, too, so what the
/// file is otherwise is asked only where the length cannot be one.
uint64_t headerLength(std::span<const std::byte> bytes, const std::string &name) {
  uint64_t length = 0;
  if (bytes.size() >= 8)
    std::memcpy(&length, bytes.data(), 8);
  bool header = bytes.size() > 8 && length <= bytes.size() - 8 && bytes[8] == std::byte('{');
  if (std::string what = header ? "" : guess(bytes); !what.empty())
    throw badInput(name, what, "a checkpoint's weights lie in model.safetensors");
  if (bytes.size() < 8)
    throw badInput(
        name, fmt::format("has {} bytes, which is too short for a safetensors file", bytes.size()));
  if (length > maxHeaderBytes)
    throw badInput(name, fmt::format("says its header has {} bytes; at most {} are read", length,
                                     maxHeaderBytes));
  if (length > bytes.size() - 8)
    throw badInput(name, fmt::format("says its header has {} bytes, but only {} follow", length,
                                     bytes.size() - 8));
  return length;
}

TensorView viewOf(const TensorEntry &entry, std::span<const std::byte> body,
                  const std::string &name) {
  auto fail = [&](const std::string &what) {
    return badInput(name, "tensor '" + entry.name + "' " + what);
  };
  auto format = std::find_if(std::begin(formats), std::end(formats),
                             [&](const Format &f) { return f.name == entry.dtype; });
  if (format == std::end(formats))
    throw fail(fmt::format("has dtype '{}', which the format does not have", entry.dtype));
  TensorView tensor{entry.name, format->dtype, {}, {}, entry.dtype};
  uint64_t elements = 1;
  // The limits come first, so that a dimension of 0 does not hide one that is out of range.
  for (uint64_t extent : entry.shape) {
    constexpr uint64_t most = uint64_t(1) << 48;
    if (extent > most ||
        __builtin_mul_overflow(elements, std::max<uint64_t>(extent, 1), &elements) ||
        elements > most)
      throw fail("has more elements than any file can hold");
    tensor.shape.push_back(static_cast<int64_t>(extent));
  }
  if (std::find(entry.shape.begin(), entry.shape.end(), 0u) != entry.shape.end())
    elements = 0;
  if (entry.begin > entry.end || entry.end > body.size())
    throw fail(fmt::format("lies at bytes {} to {}, but the file has {}", entry.begin, entry.end,
                           body.size()));
  uint64_t bits = elements * format->bits;
  if (bits % 8 != 0 || entry.end - entry.begin != bits / 8)
    throw fail(
        fmt::format("has {} bytes; its shape needs {}", entry.end - entry.begin, (bits + 7) / 8));
  tensor.data = body.subspan(entry.begin, bits / 8);
  return tensor;
}

} // namespace

size_t bytesOf(plan::DType dtype) {
  switch (dtype) {
  case plan::DType::F64:
  case plan::DType::I64:
    return 8;
  case plan::DType::BF16:
  case plan::DType::F16:
    return 2;
  case plan::DType::U8:
    return 1;
  default:
    return 4;
  }
}

std::string TensorView::dtypeName() const {
  return dtype ? std::string(nameOf(*dtype)) : storedAs;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path &path) {
  auto file = std::make_shared<MappedFile>(path);
  SafetensorsFile result = fromBytes(file->bytes(), path.string());
  result.file = std::move(file);
  return result;
}

SafetensorsFile SafetensorsFile::fromBytes(std::span<const std::byte> bytes,
                                           const std::string &name) {
  uint64_t length = headerLength(bytes, name);
  const char *text = reinterpret_cast<const char *>(bytes.data()) + 8;
  SafetensorsHeader header = readSafetensorsHeader({text, length}, name);
  std::span<const std::byte> body = bytes.subspan(8 + length);
  SafetensorsFile result;
  result.notes = std::move(header.metadata);
  std::vector<TensorEntry> &entries = header.tensors;
  for (const TensorEntry &entry : entries)
    result.list.push_back(viewOf(entry, body, name));
  std::sort(entries.begin(), entries.end(),
            [](auto &l, auto &r) { return std::pair(l.begin, l.end) < std::pair(r.begin, r.end); });
  uint64_t at = 0;
  for (const TensorEntry &entry : entries) {
    if (entry.begin != at)
      throw badInput(name, fmt::format("has tensors that {} at byte {}: tensor '{}'",
                                       entry.begin < at ? "overlap" : "leave a gap", entry.begin,
                                       entry.name));
    at = entry.end;
  }
  if (at != body.size())
    throw badInput(name, fmt::format("has {} bytes after its last tensor", body.size() - at));
  std::sort(result.list.begin(), result.list.end(),
            [](const TensorView &l, const TensorView &r) { return l.name < r.name; });
  return result;
}

const TensorView *SafetensorsFile::find(std::string_view name) const {
  auto found = std::lower_bound(list.begin(), list.end(), name,
                                [](const TensorView &t, std::string_view n) { return t.name < n; });
  return found == list.end() || found->name != name ? nullptr : &*found;
}

void writeSafetensors(const std::filesystem::path &path, std::vector<TensorView> tensors,
                      const std::map<std::string, std::string> &metadata) {
  std::sort(tensors.begin(), tensors.end(), [](auto &l, auto &r) { return l.name < r.name; });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorView &tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtypeName()},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t size = text.size();
  std::vector<std::span<const std::byte>> parts = {
      std::as_bytes(std::span(&size, 1)), std::as_bytes(std::span(text.data(), text.size()))};
  for (const TensorView &tensor : tensors)
    parts.push_back(tensor.data);
  writeFile(path, parts);
}

} // namespace ftlm
