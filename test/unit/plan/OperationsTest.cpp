// SPDX-License-Identifier: Apache-2.0
#include "test/unit/plan/PlanBuilder.h"

#include <gmock/gmock.h>

namespace ftlm::test {
namespace {

plan::AttentionT &forward(PlanBuilder &b) {
  return *b.at(0, "attention").operation.AsAttention();
}
plan::AttentionGradT &gradient(PlanBuilder &b) {
  return *b.at(0, "gradient").operation.AsAttentionGrad();
}

TEST(VerifyOperations, AcceptsPackedAttention) {
  EXPECT_EQ(verdict(attentionPlan().plan), "");
}

TEST(VerifyOperations, AcceptsRowsThatEndWithTheirBuffer) {
  PlanBuilder b = attentionPlan();
  // Values begin at 12 and have 4 elements: 12 + 16 + 4 is all that 'qkv' has.
  EXPECT_EQ(b.named("qkv").bytes, 4u * (12 + 16 + 4));
  EXPECT_EQ(verdict(b.plan), "");
}

TEST(VerifyOperations, RefusesAttention) {
  constexpr int64_t huge = int64_t(1) << 62;
  expectRefusals(
      attentionPlan,
      {{"two offsets",
        [](auto &b) { forward(b).offsets.pop_back(); },
        {"program check, instruction 1 'attention' has 2 offsets and 3 strides; expected 3 of "
         "each"}},
       {"four strides",
        [](auto &b) { gradient(b).strides.push_back(16); },
        {"'gradient' has 3 offsets and 4 strides"}},
       {"a negative offset",
        [](auto &b) { forward(b).offsets[1] = -4; },
        {"has offset -4 and stride 16 for k; expected offset 0 or more and stride 4 or more"}},
       {"rows that meet",
        [](auto &b) { forward(b).strides[0] = 7; },
        {"has offset 0 and stride 7 for q; expected offset 0 or more and stride 8 or more"}},
       {"values over the end",
        [](auto &b) { forward(b).offsets[2] = 13; },
        {"needs 33 elements of 'qkv', which has 32"}},
       {"keys over the end",
        [](auto &b) { forward(b).strides[1] = 21; },
        {"needs 33 elements of 'qkv', which has 32"}},
       {"a stride over all numbers",
        [](auto &b) { forward(b).strides[1] = INT64_MAX; },
        {"reaches out of all memory with offset 8 and stride 9223372036854775807"}},
       {"an offset over all numbers",
        [](auto &b) { forward(b).offsets[1] = INT64_MAX; },
        {"reaches out of all memory with offset 9223372036854775807"}},
       {"sizes over all numbers",
        [](auto &b) { forward(b).batch = huge; },
        {"has a size that is not possible: 4611686018427387904"}},
       {"heads that do not fit",
        [](auto &b) { forward(b).kv_heads = 3; },
        {"has 2 heads of queries and 3 of keys"}},
       {"dropout",
        [](auto &b) { forward(b).dropout = 1; },
        {"has the dropout rate 1; expected 0 or more and below 1"}},
       {"dropout without numbers",
        [](auto &b) { forward(b).dropout = 0.1; },
        {"names buffer -1; there are"}},
       {"queries not declared",
        [](auto &b) { forward(b).q = b.numberOf("weights"); },
        {"reads 'weights' without declaring it"}},
       {"values not declared",
        [](auto &b) { forward(b).v = b.numberOf("weights"); },
        {"reads 'weights' without declaring it"}},
       {"an adjoint not declared",
        [](auto &b) { gradient(b).d_k = b.numberOf("out"); },
        {"writes 'out' without declaring it"}},
       {"an adjoint that is too small",
        [](auto &b) {
          b.named("d_qkv").shape = {31};
          b.named("d_qkv").bytes = 124;
        },
        {"'gradient' needs 32 elements of 'd_qkv', which has 31"}},
       {"another dtype",
        [](auto &b) { b.named("lse").dtype = plan::DType::I32; },
        {"takes 'lse' as F32; it is I32"}},
       {"a workspace for one thread less",
        [](auto &b) { b.plan.threads = 3; },
        {"elements of 'workspace', which has"}}});
}

PlanBuilder gemmPlan() {
  PlanBuilder b = attentionPlan();
  plan::GemmT gemm;
  gemm.a = gemm.b = b.numberOf("qkv");
  gemm.c = b.numberOf("d_qkv");
  gemm.m = gemm.n = 4;
  gemm.k = 8;
  gemm.lda = 8;
  gemm.ldb = gemm.ldc = 4;
  gemm.tile_m = gemm.tile_n = 4;
  b.at(0, "gradient").operation.Set(gemm);
  return b;
}

TEST(VerifyOperations, RefusesProducts) {
  EXPECT_EQ(verdict(gemmPlan().plan), "");
  auto gemm = [](PlanBuilder &b) { return b.at(0, "gradient").operation.AsGemm(); };
  expectRefusals(gemmPlan, {{"too many rows",
                             [&](auto &b) { gemm(b)->m = 5; },
                             {"needs 40 elements of 'qkv', which has 32"}},
                            {"a stride over all numbers",
                             [&](auto &b) { gemm(b)->lda = INT64_MAX; },
                             {"reaches out of all memory"}},
                            {"a short stride",
                             [&](auto &b) { gemm(b)->ldc = 3; },
                             {"has leading dimensions or tiles that are too small"}},
                            {"no bias of that number",
                             [&](auto &b) { gemm(b)->bias = 99; },
                             {"names buffer 99; there are"}}});
}

} // namespace
} // namespace ftlm::test
