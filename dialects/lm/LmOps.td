// SPDX-License-Identifier: Apache-2.0
// All ops of the lm dialect, a file a family; beside each lies the .cpp with all that its ops say of themselves.
#ifndef FTLM_DIALECTS_LM_LMOPS_TD
#define FTLM_DIALECTS_LM_LMOPS_TD

include "dialects/lm/Frame.td"
include "dialects/lm/Embedding.td"
include "dialects/lm/Linear.td"
include "dialects/lm/Norm.td"
include "dialects/lm/Activation.td"
include "dialects/lm/Attention.td"
include "dialects/lm/Dropout.td"
include "dialects/lm/Elementwise.td"
include "dialects/lm/Loss.td"
include "dialects/lm/State.td"

#endif
