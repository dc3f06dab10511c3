// SPDX-License-Identifier: Apache-2.0
// The safetensors format (8 bytes of header length, a JSON header, the tensors). A file is checked
// as a whole before anything of it is used: lengths, offsets without gap or overlap, shapes, names.
// Views stay valid while the file lives.
#pragma once

#include "runtime/io/Files.h"
#include "schema/plan_generated.h"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace ftlm {

/// A tensor in memory, row-major.
struct TensorView {
  std::string name;
  std::optional<plan::DType> dtype; // empty: one of the format's that ftlm does not compute with
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  // NOLINTNEXTLINE(readability-redundant-member-init): aggregates may leave it out
  std::string storedAs = {}; // the dtype's name in the file it was read from

  /// The dtype's name in the format: "F32", "BOOL".
  std::string dtypeName() const;
};

class SafetensorsFile {
public:
  static SafetensorsFile open(const std::filesystem::path &path);
  /// Reads from memory; `name` is for errors. The bytes must outlive the result.
  static SafetensorsFile fromBytes(std::span<const std::byte> bytes, const std::string &name);

  /// Sorted by name.
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
