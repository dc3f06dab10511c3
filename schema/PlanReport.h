// SPDX-License-Identifier: Apache-2.0
// The facts of a plan, for programs and for people: what `ftlmc --explain` and `ftlm-run inspect`
// print. Both forms hold the same numbers. Nothing is computed that is not in the plan.
#pragma once

#include "schema/plan_generated.h"

#include <nlohmann/json.hpp>
#include <string>

namespace ftlm {

/// `ranks[]` with the bytes by class and the work of a step, `grid`, `micro_batches`, `hash` and
/// what the step is.
nlohmann::ordered_json planFacts(const plan::PlanT &plan, const std::string &hash);

/// The same in lines, with the largest buffers and the programs.
std::string planText(const plan::PlanT &plan, const std::string &hash);

} // namespace ftlm
