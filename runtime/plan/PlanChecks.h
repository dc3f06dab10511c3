// SPDX-License-Identifier: Apache-2.0
// What the checks of a plan share: its buffers and how an error is said. VerifyPlan.cpp checks
// buffers, state and programs, VerifyOperations.cpp single instructions. Every message names the
// plan, the place and the numbers found.
#pragma once

#include "runtime/base/Error.h"
#include "schema/plan_generated.h"

#include <string>

namespace ftlm {

/// The plan and the one class of ranks that this program runs.
struct PlanUnderCheck {
  const plan::Plan &plan;
  const plan::RankClass &rank;
  const std::string &name;

  Error fail(const std::string &what,
             const std::string &hint = "compile the plan again with ftlmc") const {
    return badInput("plan " + name, what, hint);
  }
  uint32_t buffers() const { return rank.buffers()->size(); }
  const plan::Buffer &buffer(uint32_t index) const { return *rank.buffers()->Get(index); }
  std::string nameOf(uint32_t index) const { return buffer(index).name()->str(); }
  /// The buffer that `index` is a part of, or itself.
  uint32_t root(uint32_t index) const {
    while (buffer(index).view_of() >= 0)
      index = static_cast<uint32_t>(buffer(index).view_of());
    return index;
  }
};

/// Where an instruction stands.
struct InstructionPlace {
  std::string text;   // "program step, instruction 3 'h.0.mlp'"
  int64_t rounds = 0; // of the loop around it; 0: it stands in none
};

/// That an operation stays within its buffers in every round and has declared all of them. Throws.
void verifyOperation(const PlanUnderCheck &under, const plan::Instruction &instruction,
                     const InstructionPlace &place);

} // namespace ftlm
