// SPDX-License-Identifier: Apache-2.0
// A plan file in memory, checked: header, hash, FlatBuffer, and that every instruction stays within
// its buffers and reads what was written. Nothing of a plan that fails a check is used.
#pragma once

#include "runtime/io/Files.h"
#include "schema/plan_generated.h"

#include <memory>
#include <vector>

namespace ftlm {

class LoadedPlan {
public:
  static LoadedPlan load(const std::filesystem::path &path);
  /// From memory; `name` is for errors.
  static LoadedPlan fromBytes(std::vector<std::byte> bytes, const std::string &name);

  const plan::Plan &get() const { return *plan; }
  /// The content hash, 32 hex digits.
  const std::string &hash() const { return contentHash; }

private:
  std::vector<std::byte> bytes;
  const plan::Plan *plan = nullptr;
  std::string contentHash;
};

/// The semantic checks; throws naming `name`, the instruction and the buffers.
void verifyPlan(const plan::Plan &plan, const std::string &name);

} // namespace ftlm
