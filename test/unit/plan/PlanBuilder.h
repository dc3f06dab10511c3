// SPDX-License-Identifier: Apache-2.0
// Small plans made by hand: a training step with a loop, and an evaluation with attention. Tests
// change one thing in them and look at what the runtime says. Buffers lie one after the other.
#pragma once

#include "schema/plan_generated.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ftlm::test {

inline constexpr int64_t units = 8; // elements of the parameters

struct PlanBuilder {
  PlanBuilder(int64_t microBatches, int64_t time = 2);

  /// Returns its number. Lives in `program` from `first` to `last`, or for ever.
  uint32_t buffer(const std::string &name, plan::DType dtype, std::vector<int64_t> shape,
                  plan::BufferClass kind, int32_t program = -1, int32_t first = -1,
                  int32_t last = -1);
  plan::ProgramT &program(const std::string &name, plan::Purpose purpose);
  /// Appends to the last program.
  template <typename Operation>
  void instruction(const std::string &name, Operation operation, std::vector<uint32_t> reads,
                   std::vector<uint32_t> writes, int64_t flops = 0) {
    auto made = std::make_unique<plan::InstructionT>();
    made->name = name;
    made->operation.Set(std::move(operation));
    made->reads = std::move(reads);
    made->writes = std::move(writes);
    made->flops = flops;
    rank().programs.back()->instructions.push_back(std::move(made));
  }
  void parameter(const std::string &name, bool trainable);
  void input(plan::InputKind kind, uint32_t buffer);
  void output(plan::OutputKind kind, uint32_t buffer, int32_t parameter = -1);

  plan::RankClassT &rank() { return *plan.rank_classes[0]; }
  plan::BufferT &named(const std::string &name);
  uint32_t numberOf(const std::string &name);
  plan::InstructionT &at(size_t program, const std::string &name);

  plan::PlanT plan;
};

/// A step of `microBatches` micro-batches of one sequence. Program 0, "step": for each micro-batch,
/// gradient[i] = weights[0] * (i + 1) and the loss is weights[1]; then "w" grows by the sum of the
/// gradients, whose first element is the norm. "frozen" is not touched. Program 1, "check": the
/// loss is weights[0].
PlanBuilder trainingPlan(int64_t microBatches);

/// "check" with attention and its gradient on packed values: one sequence of two positions, two
/// heads of queries and one of keys of 4 elements each.
PlanBuilder attentionPlan();

/// The plan as a FlatBuffer, and as a file of the given version.
std::vector<uint8_t> packed(const plan::PlanT &plan);
std::vector<std::byte> fileOf(const plan::PlanT &plan, uint32_t version);

/// What the checks say of a plan, "" when they accept it.
std::string verdict(const plan::PlanT &plan);

/// A way to spoil a plan, and words that the refusal must have.
struct Refusal {
  const char *name;
  std::function<void(PlanBuilder &)> spoil;
  std::vector<std::string> words;
};
void expectRefusals(const std::function<PlanBuilder()> &make, const std::vector<Refusal> &list);

} // namespace ftlm::test
