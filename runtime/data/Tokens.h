// SPDX-License-Identifier: Apache-2.0
// Token ids from files: text as bytes, JSON lines, and the id files of llm.c (.bin with header),
// nanoGPT (.bin of uint16) and NumPy (.npy). Every id is checked against the vocabulary; positions
// are 64-bit. Lines with a prompt and a completion become sequences of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ftlm {

/// A sequence of its own: tokens [begin, begin + tokens) of exampleTokens, of which the first
/// `prompt` are given and not learnt.
struct Example {
  int64_t begin = 0, tokens = 0, prompt = 0;
  int64_t line = 0; // in files[file], from 1
  size_t file = 0;
};

/// The tokens of all files, one after the other.
struct TokenStream {
  std::vector<int32_t> tokens;        // running text
  std::vector<int32_t> exampleTokens; // of lines with a prompt and a completion
  std::vector<Example> examples;
  std::vector<std::string> files;
  int64_t documents = 0, emptyDocuments = 0;
  std::vector<std::string> notes; // what a user should know: line ends, empty documents

  /// A hash of the contents, and of nothing else.
  std::string hash() const;
};

/// A text of a file; line 0 stands for the whole file.
struct Document {
  std::string_view text;
  int64_t line = 0;
  bool example = false;   // it came as "prompt" and "completion", which follow each other in `text`
  int64_t promptSize = 0; // bytes of the prompt
};

/// Calls `document` for each document of a text file: the whole file, or each line of a .jsonl file
/// ("text", or "prompt" and "completion").
void forEachDocument(const std::filesystem::path &path,
                     const std::function<void(const Document &)> &document);
/// The same for a file in memory: `name` is for errors.
void forEachLine(std::string_view text, const std::string &name,
                 const std::function<void(const Document &)> &document);

/// Reads files (shell patterns are expanded, sorted by name). Throws on ids outside [0,
/// vocabulary).
TokenStream readTokens(std::span<const std::filesystem::path> files, int64_t vocabulary);

/// Adds the ids of a .bin or .npy file in memory; `name` is for errors.
void appendBin(std::span<const std::byte> bytes, const std::string &name, int64_t vocabulary,
               TokenStream &stream);
void appendNpy(std::span<const std::byte> bytes, const std::string &name, int64_t vocabulary,
               TokenStream &stream);

} // namespace ftlm
