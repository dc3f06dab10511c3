// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/Tokens.h"

#include "runtime/io/Files.h"

#include <cstring>
#include <fmt/format.h>
#include <glob.h>
#include <nlohmann/json.hpp>
#include <regex>

namespace ftlm {
namespace {

namespace fs = std::filesystem;

/// A NumPy header's facts (format of numpy.lib.format: magic, version, header length, a Python
/// dictionary).
struct NpyHeader {
  size_t dataOffset;
  std::string dtype;
};

NpyHeader readNpyHeader(std::span<const std::byte> bytes, const std::string &name) {
  const char *text = reinterpret_cast<const char *>(bytes.data());
  if (bytes.size() < 12 || std::memcmp(text, "\x93NUMPY", 6) != 0)
    throw badInput(name, "is no NumPy file");
  size_t lengthBytes = text[6] == 1 ? 2 : 4, length = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  size_t start = 8 + lengthBytes;
  if (length > bytes.size() - start)
    throw badInput(name, "has a header longer than the file");
  std::string header(text + start, std::min<size_t>(length, 4096));
  std::smatch match;
  if (!std::regex_search(header, match, std::regex("'descr': *'([^']*)'")))
    throw badInput(name, "has a header without dtype");
  NpyHeader result{start + length, match[1]};
  if (!std::regex_search(header, match, std::regex("'shape': *\\((\\d+),?\\)")))
    throw badInput(name, "is no array of one dimension");
  return result;
}

template <typename T>
void append(std::span<const std::byte> bytes, const std::string &name, int64_t vocabulary,
            TokenStream &stream) {
  if (bytes.size() % sizeof(T) != 0)
    throw badInput(name, fmt::format("has {} bytes of ids, which {} does not divide", bytes.size(),
                                     sizeof(T)));
  size_t count = bytes.size() / sizeof(T), before = stream.tokens.size();
  stream.tokens.resize(before + count);
  for (size_t i = 0; i < count; ++i) {
    T id;
    std::memcpy(&id, bytes.data() + i * sizeof(T), sizeof(T));
    if (static_cast<int64_t>(id) < 0 || static_cast<int64_t>(id) >= vocabulary)
      throw badInput(name, fmt::format("has id {} at position {}; the vocabulary has {}",
                                       static_cast<int64_t>(id), i, vocabulary));
    stream.tokens[before + i] = static_cast<int32_t>(id);
  }
  stream.documents += count > 0;
}

/// llm.c's files begin with 256 int32: a magic number, a version, the number of tokens.
void readBin(std::span<const std::byte> bytes, const std::string &name, int64_t vocabulary,
             TokenStream &stream) {
  constexpr size_t headerBytes = 1024;
  int32_t head[3] = {};
  if (bytes.size() >= headerBytes)
    std::memcpy(head, bytes.data(), sizeof(head));
  bool gpt2 = head[0] == 20240520 && head[1] == 1, wide = head[0] == 20240801 && head[1] == 7;
  if (!gpt2 && !wide)
    return append<uint16_t>(bytes, name, vocabulary, stream);
  std::span<const std::byte> ids = bytes.subspan(headerBytes);
  size_t width = gpt2 ? 2 : 4;
  if (head[2] < 0 || static_cast<size_t>(head[2]) * width != ids.size())
    throw badInput(name,
                   fmt::format("says it has {} tokens, but {} bytes of {} each follow its header",
                               head[2], ids.size(), width));
  gpt2 ? append<uint16_t>(ids, name, vocabulary, stream)
       : append<uint32_t>(ids, name, vocabulary, stream);
}

void readNpy(std::span<const std::byte> bytes, const std::string &name, int64_t vocabulary,
             TokenStream &stream) {
  NpyHeader header = readNpyHeader(bytes, name);
  std::span<const std::byte> ids = bytes.subspan(header.dataOffset);
  if (header.dtype == "<u2")
    append<uint16_t>(ids, name, vocabulary, stream);
  else if (header.dtype == "<u4")
    append<uint32_t>(ids, name, vocabulary, stream);
  else if (header.dtype == "<i4")
    append<int32_t>(ids, name, vocabulary, stream);
  else if (header.dtype == "<i8")
    append<int64_t>(ids, name, vocabulary, stream);
  else
    throw badInput(
        name, fmt::format("has dtype {}; expected uint16, uint32, int32 or int64, little-endian",
                          header.dtype));
}

std::vector<fs::path> expand(std::span<const fs::path> patterns) {
  std::vector<fs::path> files;
  for (const fs::path &pattern : patterns) {
    glob_t found{};
    if (!fs::exists(pattern) && glob(pattern.c_str(), 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i)
        files.emplace_back(found.gl_pathv[i]);
    else
      files.push_back(pattern);
    globfree(&found);
  }
  return files;
}

} // namespace

void forEachDocument(const fs::path &path, const std::function<void(std::string_view)> &document) {
  MappedFile file(path);
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  if (path.extension() != ".jsonl")
    return document(text);
  int64_t number = 0;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos)
      continue;
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded() || !json.is_object() || !json.contains("text") ||
        !json["text"].is_string())
      throw badInput(fmt::format("{}:{}", path.string(), number),
                     "is no JSON object with a text under \"text\"");
    document(json["text"].get<std::string>());
  }
}

TokenStream readTokens(std::span<const fs::path> files, int64_t vocabulary) {
  TokenStream stream;
  for (const fs::path &path : expand(files)) {
    std::string name = path.string();
    if (path.extension() == ".bin" || path.extension() == ".npy") {
      MappedFile file(path);
      path.extension() == ".bin" ? readBin(file.bytes(), name, vocabulary, stream)
                                 : readNpy(file.bytes(), name, vocabulary, stream);
      continue;
    }
    if (vocabulary < 256)
      throw badInput(name,
                     fmt::format("is text, whose bytes need a vocabulary of 256; the model has {}",
                                 vocabulary),
                     "give files of token ids (.bin, .npy)");
    bool returns = false;
    forEachDocument(path, [&](std::string_view text) {
      ++stream.documents;
      stream.emptyDocuments += text.empty();
      returns = returns || text.find('\r') != std::string_view::npos;
      for (char byte : text)
        stream.tokens.push_back(static_cast<unsigned char>(byte));
    });
    if (returns)
      stream.notes.push_back(name + " has carriage returns; they are kept, as bytes of the text");
  }
  if (stream.emptyDocuments > 0)
    stream.notes.push_back(fmt::format("{} empty documents were skipped", stream.emptyDocuments));
  return stream;
}

} // namespace ftlm
