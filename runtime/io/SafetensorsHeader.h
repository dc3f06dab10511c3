// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file. It is read as a stream, so that a header of 100 MB that is
// something else costs no memory: the first key or value that the format does not have ends it.
// What is read is each tensor's dtype, shape and range of bytes, not yet compared with the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ftlm {

struct TensorEntry {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors; // in the order of the file
  std::map<std::string, std::string> metadata;
};

/// Throws, naming `name` and the tensor, where the text is no header.
SafetensorsHeader readSafetensorsHeader(std::string_view text, const std::string &name);

} // namespace ftlm
