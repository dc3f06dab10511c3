// SPDX-License-Identifier: Apache-2.0
#include "compiler/explain/Explain.h"

#include "schema/PlanReport.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

namespace ftlm {

std::string explainPlan(const plan::PlanT &plan, bool json) {
  flatbuffers::FlatBufferBuilder builder(1 << 20);
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &plan));
  XXH128_hash_t sum = XXH3_128bits(builder.GetBufferPointer(), builder.GetSize());
  std::string hash = fmt::format("{:016x}{:016x}", sum.high64, sum.low64);
  const plan::Plan &packed = *plan::GetPlan(builder.GetBufferPointer());
  std::string text = json ? plan::planFacts(packed, hash).dump(2) : plan::planText(packed, hash);
  if (!text.ends_with('\n'))
    text += '\n';
  return text;
}

} // namespace ftlm
