// SPDX-License-Identifier: Apache-2.0
// Token ids from files: text as bytes, JSON lines, and the id files of llm.c (.bin with header),
// nanoGPT (.bin of uint16) and NumPy (.npy). Every id is checked against the vocabulary; positions
// are 64-bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ftlm {

/// The tokens of all files, one after the other.
struct TokenStream {
  std::vector<int32_t> tokens;
  int64_t documents = 0, emptyDocuments = 0;
  std::vector<std::string> notes; // what a user should know: line ends, empty documents
};

/// Calls `document` for each document of a text file: the whole file, or each line of a .jsonl file
/// ("text").
void forEachDocument(const std::filesystem::path &path,
                     const std::function<void(std::string_view)> &document);

/// Reads files (shell patterns are expanded, sorted by name). Throws on ids outside [0,
/// vocabulary).
TokenStream readTokens(std::span<const std::filesystem::path> files, int64_t vocabulary);

} // namespace ftlm
