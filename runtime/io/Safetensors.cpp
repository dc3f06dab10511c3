// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/Safetensors.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace ftlm {
namespace {

using Json = nlohmann::json;

constexpr size_t maxHeaderBytes = 100'000'000;

const std::pair<const char *, plan::DType> dtypes[] = {
    {"F32", plan::DType::F32}, {"BF16", plan::DType::BF16}, {"F16", plan::DType::F16},
    {"F64", plan::DType::F64}, {"I32", plan::DType::I32},   {"I64", plan::DType::I64},
    {"U8", plan::DType::U8}};

/// Names what a file is that is no safetensors file.
std::string guess(std::span<const std::byte> bytes) {
  std::string_view head(reinterpret_cast<const char *>(bytes.data()),
                        std::min<size_t>(bytes.size(), 64));
  if (head.starts_with("version https://git-lfs"))
    return "is a git-lfs pointer: the weights themselves were not downloaded";
  if (head.starts_with("PK\x03\x04"))
    return "is a zip archive, perhaps a PyTorch checkpoint; only safetensors are read";
  if (head.starts_with("\x80\x02") || head.starts_with("\x80\x03") || head.starts_with("\x80\x04"))
    return "is a Python pickle; only safetensors are read";
  if (head.starts_with("<!DOCTYPE") || head.starts_with("<html") || head.starts_with("<!doctype"))
    return "is an HTML page, perhaps of a failed download";
  return "";
}

/// Refuses a header that names a key twice, which JSON libraries take silently.
struct UniqueKeys {
  std::vector<std::set<std::string>> open;
  std::string duplicate;
  bool operator()(int, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::object_start)
      open.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      open.pop_back();
    else if (event == Json::parse_event_t::key &&
             !open.back().insert(parsed.get<std::string>()).second)
      duplicate = parsed.get<std::string>();
    return true;
  }
};

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

SafetensorsFile SafetensorsFile::open(const std::filesystem::path &path) {
  auto file = std::make_shared<MappedFile>(path);
  SafetensorsFile result = fromBytes(file->bytes(), path.string());
  result.file = std::move(file);
  return result;
}

SafetensorsFile SafetensorsFile::fromBytes(std::span<const std::byte> bytes,
                                           const std::string &name) {
  if (std::string what = guess(bytes); !what.empty())
    throw badInput(name, what);
  uint64_t headerBytes = 0;
  if (bytes.size() < 8)
    throw badInput(
        name, fmt::format("has {} bytes, which is too short for a safetensors file", bytes.size()));
  std::memcpy(&headerBytes, bytes.data(), 8);
  if (headerBytes > maxHeaderBytes)
    throw badInput(name, fmt::format("says its header has {} bytes; at most {} are read",
                                     headerBytes, maxHeaderBytes));
  if (headerBytes > bytes.size() - 8)
    throw badInput(name, fmt::format("says its header has {} bytes, but only {} follow",
                                     headerBytes, bytes.size() - 8));
  const char *text = reinterpret_cast<const char *>(bytes.data()) + 8;
  UniqueKeys keys;
  Json header = Json::parse(text, text + headerBytes, std::ref(keys), /*allow_exceptions=*/false);
  if (header.is_discarded() || !header.is_object())
    throw badInput(name, "has a header that is not a JSON object");
  if (!keys.duplicate.empty())
    throw badInput(name, fmt::format("names '{}' twice in its header", keys.duplicate));

  SafetensorsFile result;
  std::span<const std::byte> body = bytes.subspan(8 + headerBytes);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (auto &[key, value] : header.items()) {
    if (key == "__metadata__") {
      if (!value.is_object())
        throw badInput(name, "has metadata that is not an object");
      for (auto &[k, v] : value.items())
        result.notes[k] = v.is_string() ? v.get<std::string>() : v.dump();
      continue;
    }
    auto fail = [&](const std::string &what) {
      return badInput(name, "tensor '" + key + "' " + what);
    };
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
      throw fail("lacks dtype, shape or data_offsets");
    TensorView tensor;
    tensor.name = key;
    auto known = std::find_if(std::begin(dtypes), std::end(dtypes),
                              [&](auto &d) { return value["dtype"] == d.first; });
    if (known == std::end(dtypes))
      throw fail(fmt::format("has dtype {}, which is not read", value["dtype"].dump()));
    tensor.dtype = known->second;
    const Json &shape = value["shape"], &offsets = value["data_offsets"];
    if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2 ||
        !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
      throw fail("has a shape or offsets that are no lists of numbers");
    uint64_t elements = 1;
    for (const Json &extent : shape) {
      if (!extent.is_number_unsigned())
        throw fail("has an extent that is no whole number");
      uint64_t size = extent.get<uint64_t>();
      if (size > (uint64_t(1) << 40) || __builtin_mul_overflow(elements, size, &elements) ||
          elements > (uint64_t(1) << 48))
        throw fail("has more elements than any file can hold");
      tensor.shape.push_back(static_cast<int64_t>(size));
    }
    uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > body.size())
      throw fail(
          fmt::format("lies at bytes {} to {}, but the file has {}", begin, end, body.size()));
    if (end - begin != elements * bytesOf(tensor.dtype))
      throw fail(fmt::format("has {} bytes; its shape needs {}", end - begin,
                             elements * bytesOf(tensor.dtype)));
    tensor.data = body.subspan(begin, end - begin);
    ranges.push_back({begin, end});
    result.list.push_back(std::move(tensor));
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t at = 0;
  for (auto [begin, end] : ranges) {
    if (begin != at)
      throw badInput(name, fmt::format("has tensors that {} at byte {}",
                                       begin < at ? "overlap" : "leave a gap", begin));
    at = end;
  }
  if (at != body.size())
    throw badInput(name, fmt::format("has {} bytes after its last tensor", body.size() - at));
  return result;
}

const TensorView *SafetensorsFile::find(std::string_view name) const {
  auto found =
      std::find_if(list.begin(), list.end(), [&](const TensorView &t) { return t.name == name; });
  return found == list.end() ? nullptr : &*found;
}

void writeSafetensors(const std::filesystem::path &path, std::vector<TensorView> tensors,
                      const std::map<std::string, std::string> &metadata) {
  std::sort(tensors.begin(), tensors.end(), [](auto &l, auto &r) { return l.name < r.name; });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorView &tensor : tensors) {
    auto known = std::find_if(std::begin(dtypes), std::end(dtypes),
                              [&](auto &d) { return d.second == tensor.dtype; });
    header[tensor.name] = {{"dtype", known->first},
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
