// SPDX-License-Identifier: Apache-2.0
// The safetensors format (8 bytes of header length, a JSON header, the tensors). A file is checked
// as a whole before anything of it is used: lengths, offsets without gap or overlap, shapes, names.
// Views stay valid while the file lives.
#pragma once

#include "runtime/io/Files.h"
#include "schema/plan_generated.h"

#include <map>
#include <memory>
#include <vector>

namespace ftlm {

/// A tensor in memory, row-major.
struct TensorView {
  std::string name;
  plan::DType dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

class SafetensorsFile {
public:
  static SafetensorsFile open(const std::filesystem::path &path);
  /// Reads from memory; `name` is for errors. The bytes must outlive the result.
  static SafetensorsFile fromBytes(std::span<const std::byte> bytes, const std::string &name);

  const std::vector<TensorView> &tensors() const { return list; }
  const TensorView *find(std::string_view name) const;
  const std::map<std::string, std::string> &metadata() const { return notes; }

private:
  std::shared_ptr<MappedFile> file;
  std::vector<TensorView> list;
  std::map<std::string, std::string> notes;
};

/// Bytes of an element.
size_t bytesOf(plan::DType dtype);

/// Writes the tensors sorted by name, atomically.
void writeSafetensors(const std::filesystem::path &path, std::vector<TensorView> tensors,
                      const std::map<std::string, std::string> &metadata = {});

} // namespace ftlm
