// SPDX-License-Identifier: Apache-2.0
// What --explain prints: a plan's facts and promises, for people or as JSON. Give it the plan that
// is about to be written; the hash in the text is that of the file.
#pragma once

#include "schema/plan_generated.h"

#include <string>

namespace ftlm {

/// The report of schema/PlanReport.h; `json` chooses the machine's form. Ends with a newline.
std::string explainPlan(const plan::PlanT &plan, bool json);

} // namespace ftlm
