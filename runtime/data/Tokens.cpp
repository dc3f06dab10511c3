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
  uint64_t count;
};

NpyHeader readNpyHeader(std::span<const std::byte> bytes, const std::string &name) {
  const char *text = reinterpret_cast<const char *>(bytes.data());
  if (bytes.size() < 12 || std::memcmp(text, "\x93NUMPY", 6) != 0)
    throw badInput(name, "is no NumPy file");
  if (text[6] < 1 || text[6] > 3)
    throw badInput(name, fmt::format("is a NumPy file of version {}; versions 1 to 3 are read",
                                     static_cast<unsigned>(static_cast<unsigned char>(text[6]))));
  size_t lengthBytes = text[6] == 1 ? 2 : 4, length = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  size_t start = 8 + lengthBytes;
  if (length > bytes.size() - start)
    throw badInput(name, fmt::format("says its header has {} bytes, but only {} follow", length,
                                     bytes.size() - start));
  std::string header(text + start, std::min<size_t>(length, 4096));
  std::smatch match;
  if (!std::regex_search(header, match, std::regex("'descr': *'([^']{0,40})'")))
    throw badInput(name, "has a header without dtype");
  NpyHeader result{start + length, match[1], 0};
  if (!std::regex_search(header, match, std::regex("'shape': *\\(([0-9]{1,18}),? *\\)")))
    throw badInput(name, "is no array of one dimension");
  result.count = std::stoull(match[1]);
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

} // namespace

// llm.c's files begin with 256 int32: a magic number, a version, the number of tokens.
void appendBin(std::span<const std::byte> bytes, const std::string &name, int64_t vocabulary,
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

void appendNpy(std::span<const std::byte> bytes, const std::string &name, int64_t vocabulary,
               TokenStream &stream) {
  NpyHeader header = readNpyHeader(bytes, name);
  std::span<const std::byte> ids = bytes.subspan(header.dataOffset);
  size_t width = header.dtype.size() == 3 && header.dtype[2] > '0' ? header.dtype[2] - '0' : 1;
  if (ids.size() != header.count * width)
    throw badInput(name,
                   fmt::format("says it has {} ids of {} bytes, but {} bytes follow its header",
                               header.count, width, ids.size()));
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

static std::vector<fs::path> expand(std::span<const fs::path> patterns) {
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

void forEachLine(std::string_view text, const std::string &name,
                 const std::function<void(const Document &)> &document) {
  int64_t number = 0;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos)
      continue;
    auto json = nlohmann::json::parse(line, nullptr, false);
    auto has = [&](const char *key) { return json.contains(key) && json[key].is_string(); };
    bool running = json.is_object() && json.contains("text"),
         example = json.is_object() && (json.contains("prompt") || json.contains("completion"));
    if (running == example || (running ? !has("text") : !has("prompt") || !has("completion")))
      throw badInput(fmt::format("{}:{}", name, number),
                     "is no JSON object with a text under \"text\", or with texts under "
                     "\"prompt\" and \"completion\"");
    if (running) {
      document({json["text"].get<std::string>(), number});
      continue;
    }
    auto prompt = json["prompt"].get<std::string>();
    document({prompt + json["completion"].get<std::string>(), number, true,
              static_cast<int64_t>(prompt.size())});
  }
}

void forEachDocument(const fs::path &path, const std::function<void(const Document &)> &document) {
  MappedFile file(path);
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  if (path.extension() == ".jsonl")
    forEachLine(text, path.string(), document);
  else
    document({text});
}

/// Adds the documents of a text file, as bytes.
static void appendText(const fs::path &path, TokenStream &stream) {
  bool returns = false;
  size_t file = stream.files.size() - 1;
  forEachDocument(path, [&](const Document &document) {
    // A sequence of one token has no target.
    bool empty = document.text.size() < (document.example ? 2 : 1);
    ++stream.documents;
    stream.emptyDocuments += empty;
    returns = returns || document.text.find('\r') != std::string_view::npos;
    if (empty)
      return;
    std::vector<int32_t> &tokens = document.example ? stream.exampleTokens : stream.tokens;
    if (document.example)
      stream.examples.push_back({static_cast<int64_t>(tokens.size()),
                                 static_cast<int64_t>(document.text.size()), document.promptSize,
                                 document.line, file});
    for (char byte : document.text)
      tokens.push_back(static_cast<unsigned char>(byte));
  });
  if (returns)
    stream.notes.push_back(path.string() +
                           " has carriage returns; they are kept, as bytes of the text");
}

TokenStream readTokens(std::span<const fs::path> files, int64_t vocabulary) {
  TokenStream stream;
  for (const fs::path &path : expand(files)) {
    std::string name = path.string();
    stream.files.push_back(name);
    if (path.extension() == ".bin" || path.extension() == ".npy") {
      MappedFile file(path);
      path.extension() == ".bin" ? appendBin(file.bytes(), name, vocabulary, stream)
                                 : appendNpy(file.bytes(), name, vocabulary, stream);
      continue;
    }
    if (vocabulary < 256)
      throw badInput(name,
                     fmt::format("is text, whose bytes need a vocabulary of 256; the model has {}",
                                 vocabulary),
                     "give files of token ids (.bin, .npy)");
    appendText(path, stream);
  }
  if (stream.emptyDocuments > 0)
    stream.notes.push_back(fmt::format("{} of {} documents are empty and were skipped",
                                       stream.emptyDocuments, stream.documents));
  return stream;
}

std::string TokenStream::hash() const {
  std::vector<int64_t> sizes;
  for (const Example &example : examples)
    sizes.insert(sizes.end(), {example.tokens, example.prompt});
  std::string parts = hashOf(std::as_bytes(std::span(tokens))) +
                      hashOf(std::as_bytes(std::span(exampleTokens))) +
                      hashOf(std::as_bytes(std::span(sizes)));
  return hashOf(std::as_bytes(std::span(parts)));
}

} // namespace ftlm
