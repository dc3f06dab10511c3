// SPDX-License-Identifier: Apache-2.0
#include "schema/PlanReport.h"

#include <algorithm>
#include <fmt/format.h>

namespace ftlm {

static int64_t parameterCount(const plan::PlanT &plan) {
  int64_t count = 0;
  for (auto &parameter : plan.parameters) {
    int64_t elements = 1;
    for (int64_t extent : parameter->shape)
      elements *= extent;
    count += elements;
  }
  return count;
}

/// The work of a program: what stands in a loop counts once a round.
static int64_t programFlops(const plan::ProgramT &program) {
  int64_t flops = 0, rounds = 1;
  uint32_t inLoop = 0;
  for (auto &instruction : program.instructions) {
    if (const plan::LoopT *loop = instruction->operation.AsLoop()) {
      rounds = loop->count;
      inLoop = loop->length;
      continue;
    }
    flops += instruction->flops * (inLoop > 0 ? rounds : 1);
    inLoop -= inLoop > 0 ? 1 : 0;
  }
  return flops;
}

/// The work of a step; 0 in a plan that cannot train.
static int64_t stepFlops(const plan::RankClassT &rankClass) {
  for (auto &program : rankClass.programs)
    if (program->purpose == plan::Purpose::Train)
      return programFlops(*program);
  return 0;
}

nlohmann::ordered_json planFacts(const plan::PlanT &plan, const std::string &hash) {
  nlohmann::ordered_json json;
  json["hash"] = hash;
  json["producer"] = plan.producer;
  json["model"] = plan.model;
  json["parameters"] = parameterCount(plan);
  json["objective"] = plan.objective;
  json["precision"] = plan.precision;
  json["optimizer"] = plan::EnumNameOptimizer(plan.optimizer);
  json["batch"] = plan.batch;
  json["micro_batch"] = plan.micro_batch;
  json["micro_batches"] = plan.micro_batches;
  json["seq_len"] = plan.time;
  json["threads"] = plan.threads;
  json["grid"] = {{"dp", plan.dp}, {"tp", plan.tp}, {"pp", plan.pp}};
  json["ranks"] = nlohmann::ordered_json::array();
  for (auto &rankClass : plan.rank_classes)
    for (uint32_t rank : rankClass->ranks) {
      const plan::SummaryT &summary = *rankClass->summary;
      nlohmann::ordered_json facts;
      facts["rank"] = rank;
      facts["arena_bytes"] = summary.arena_bytes;
      facts["lower_bound_bytes"] = summary.lower_bound_bytes;
      facts["parameter_bytes"] = summary.parameter_bytes;
      facts["gradient_bytes"] = summary.gradient_bytes;
      facts["optimizer_bytes"] = summary.optimizer_bytes;
      facts["activation_bytes"] = summary.activation_bytes;
      facts["workspace_bytes"] = summary.workspace_bytes;
      facts["communication_bytes"] = summary.communication_bytes;
      facts["flops"] = stepFlops(*rankClass);
      facts["matmul_flops"] = summary.matmul_flops;
      facts["link_bytes"] = nlohmann::ordered_json::object();
      json["ranks"].push_back(facts);
    }
  return json;
}

static std::string size(uint64_t bytes) {
  if (bytes >= 10'000'000)
    return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
}

std::string planText(const plan::PlanT &plan, const std::string &hash) {
  std::string text;
  auto line = [&](const std::string &what) { text += what + "\n"; };
  line(fmt::format("plan {} of model {}: {} parameters, {}, {}, {}", hash, plan.model,
                   parameterCount(plan), plan.objective, plan.precision,
                   plan::EnumNameOptimizer(plan.optimizer)));
  line(fmt::format("step: {} sequences of {} = micro-batch {} x {} micro-batches x dp {}",
                   plan.batch, plan.time, plan.micro_batch, plan.micro_batches, plan.dp));
  for (auto &rankClass : plan.rank_classes) {
    const plan::SummaryT &s = *rankClass->summary;
    line(
        fmt::format("rank {}: arena {} ({} bytes, {:.4f} of the least possible)",
                    fmt::join(rankClass->ranks, ", "), size(s.arena_bytes), s.arena_bytes,
                    static_cast<double>(s.arena_bytes) / static_cast<double>(s.lower_bound_bytes)));
    line(fmt::format("  parameters {}, gradients {}, optimizer {}, activations {}, workspace {}",
                     size(s.parameter_bytes), size(s.gradient_bytes), size(s.optimizer_bytes),
                     size(s.activation_bytes), size(s.workspace_bytes)));
    int64_t flops = stepFlops(*rankClass);
    line(fmt::format("  work {:.1f} GFLOP a step, {:.1f} % of it in matrix products",
                     static_cast<double>(flops) / 1e9,
                     100.0 * static_cast<double>(s.matmul_flops) /
                         static_cast<double>(std::max<int64_t>(1, flops))));
    std::vector<const plan::BufferT *> largest;
    for (auto &buffer : rankClass->buffers)
      if (buffer->view_of < 0)
        largest.push_back(buffer.get());
    std::stable_sort(largest.begin(), largest.end(),
                     [](auto *l, auto *r) { return l->bytes > r->bytes; });
    line("  largest buffers:");
    for (size_t i = 0; i < std::min<size_t>(8, largest.size()); ++i)
      line(fmt::format(
          "    {:>10}  {:<13} {}{}", size(largest[i]->bytes),
          plan::EnumNameBufferClass(largest[i]->buffer_class), largest[i]->name,
          largest[i]->program < 0
              ? ""
              : " (in " + rankClass->programs[static_cast<size_t>(largest[i]->program)]->name +
                    ")"));
    for (auto &program : rankClass->programs)
      line(fmt::format("  program {:<12} {:<8} {:>6} instructions, {:.2f} GFLOP", program->name,
                       plan::EnumNamePurpose(program->purpose), program->instructions.size(),
                       static_cast<double>(programFlops(*program)) / 1e9));
  }
  return text;
}

} // namespace ftlm
