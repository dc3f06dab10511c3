// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/LoadedPlan.h"
#include "test/unit/plan/PlanBuilder.h"

#include <gmock/gmock.h>

namespace ftlm::test {
namespace {

plan::ProgramT &step(PlanBuilder &b) {
  return *b.rank().programs[0];
}
plan::ProgramT &check(PlanBuilder &b) {
  return *b.rank().programs[1];
}
plan::LoopT &loop(PlanBuilder &b) {
  return *b.at(0, "micro-batches").operation.AsLoop();
}

/// An instruction that sets a buffer to zero, at place `at` of program `program`.
void insertZero(PlanBuilder &b, size_t program, size_t at, const std::string &name) {
  auto made = std::make_unique<plan::InstructionT>();
  plan::ZeroT zero;
  zero.buffer = b.numberOf(name);
  made->name = "zero";
  made->operation.Set(zero);
  made->writes = {zero.buffer};
  auto &list = b.rank().programs[program]->instructions;
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), std::move(made));
}

/// The same in place of instruction `at`.
void replaceByZero(PlanBuilder &b, size_t program, size_t at, const std::string &name) {
  insertZero(b, program, at, name);
  auto &list = b.rank().programs[program]->instructions;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at) + 1);
}

TEST(VerifyPlan, AcceptsAStepAsOneProgram) {
  for (int64_t m = 1; m <= 9; ++m)
    EXPECT_EQ(verdict(trainingPlan(m).plan), "") << m << " micro-batches";
}

TEST(VerifyPlan, RefusesAFileOfTheOldFormatAndNamesBothVersions) {
  plan::PlanT plan = std::move(trainingPlan(1).plan);
  EXPECT_NO_THROW(LoadedPlan::fromBytes(fileOf(plan, 2), "a.ftlm"));
  try {
    LoadedPlan::fromBytes(fileOf(plan, 1), "a.ftlm");
    FAIL() << "expected an error";
  } catch (const Error &error) {
    EXPECT_EQ(error.where, "a.ftlm");
    EXPECT_EQ(error.found, "is a plan of version 1; this program reads version 2");
  }
}

// M = 5: the loop runs instructions 1 to 4; 5 and 6 add up the levels, 7 is the norm, 8 the update.
PlanBuilder five() {
  return trainingPlan(5);
}

TEST(VerifyPlan, RefusesSizesAndBuffers) {
  expectRefusals(
      five,
      {{"no batch", [](auto &b) { b.plan.batch = 0; }, {"has batch 0; expected 1 to 1048576"}},
       {"huge time", [](auto &b) { b.plan.time = int64_t(1) << 60; }, {"has time 115292"}},
       {"micro-batches that do not make the batch",
        [](auto &b) { b.plan.micro_batches = 4; },
        {"has 4 micro-batches of 1 for a batch of 5; expected 5"}},
       {"unknown dtype",
        [](auto &b) { b.named("row").dtype = static_cast<plan::DType>(7); },
        {"buffer 'row' has dtype 7; this program knows 0 (F32), 1 (BF16)", "6 (U8)"}},
       {"buffers that overlap",
        [](auto &b) { b.named("row").offset = b.named("gradient").offset; },
        {"buffers 'row' and 'gradient' overlap while both live"}},
       {"out of the arena",
        [](auto &b) { b.named("row").offset = b.rank().summary->arena_bytes; },
        {"buffer 'row' of 8 bytes", "does not fit"}},
       {"a parameter that is no parameter",
        [](auto &b) { b.named("w").buffer_class = plan::BufferClass::Activation; },
        {"parameter 'w' has its value in a buffer that is not Parameter and for ever"}}});
}

TEST(VerifyPlan, RefusesPrograms) {
  expectRefusals(
      five,
      {{"unknown purpose",
        [](auto &b) { check(b).purpose = static_cast<plan::Purpose>(3); },
        {"program check has purpose 3; this program knows 0 (Train), 1 (Evaluate), 2 (Generate)"}},
       {"two for one purpose",
        [](auto &b) { check(b).purpose = plan::Purpose::Train; },
        {"has two programs for the purpose Train: step and check"}},
       {"other positions",
        [](auto &b) { check(b).time = 1; },
        {"program check has 1 positions; the plan has 2"}}});
}

TEST(VerifyPlan, RefusesInputs) {
  using plan::InputKind;
  expectRefusals(
      five,
      {{"unknown kind",
        [](auto &b) { step(b).inputs[0]->kind = static_cast<InputKind>(9); },
        {"program step has an input of kind 9; this program knows 0 (Tokens)", "6 (Hyper)"}},
       {"twice",
        [](auto &b) {
          step(b).inputs[0]->kind = InputKind::Weights;
          step(b).inputs[0]->buffer = b.numberOf("weights");
        },
        {"program step has two of the input Weights"}},
       {"other dtype",
        [](auto &b) { step(b).inputs[0]->buffer = b.numberOf("weights"); },
        {"program step has its input Tokens in 'weights' of 10 F32; expected 10 I32 or more"}},
       {"one micro-batch too few",
        [](auto &b) {
          b.named("tokens").bytes = 32;
          b.named("tokens").shape = {4, 2};
        },
        {"has its input Tokens in 'tokens' of 8 I32; expected 10 I32 or more"}},
       {"too few for an evaluation",
        [](auto &b) {
          b.named("check weights").bytes = 4;
          b.named("check weights").shape = {1};
        },
        {"program check has its input Weights in 'check weights' of 1 F32; expected 2 F32"}},
       {"not filled",
        [](auto &b) { step(b).inputs[0]->kind = InputKind::Positions; },
        {"has the input Positions, which nobody fills for the purpose Train"}},
       {"no buffer",
        [](auto &b) { step(b).inputs[0]->buffer = 999; },
        {"has its input Tokens in buffer 999; there are 15"}},
       {"of another program",
        [](auto &b) {
          step(b).inputs[1]->buffer = b.numberOf("check weights");
          b.named("check weights").bytes = 40;
          b.named("check weights").shape = {5, 2};
        },
        {"has its input Weights in 'check weights' of another program"}},
       {"a parameter",
        [](auto &b) { check(b).inputs[0]->buffer = b.numberOf("w"); },
        {"has its input Weights in 'w', which keeps state"}},
       {"alive too late",
        [](auto &b) { b.named("weights").first = 1; },
        {"has its input Weights in 'weights', which lives from instruction 1 on; expected 0"}},
       {"generation without positions",
        [](auto &b) {
          check(b).purpose = plan::Purpose::Generate;
          check(b).inputs.clear();
        },
        {"program check has no input Tokens"}}});
}

TEST(VerifyPlan, RefusesOutputs) {
  using plan::OutputKind;
  expectRefusals(
      five,
      {{"unknown kind",
        [](auto &b) { step(b).outputs[1]->kind = static_cast<OutputKind>(4); },
        {"program step has an output of kind 4; this program knows 0 (Loss)", "3 (Gradient)"}},
       {"twice",
        [](auto &b) {
          step(b).outputs[1]->kind = OutputKind::Loss;
          step(b).outputs[1]->buffer = b.numberOf("losses");
        },
        {"has two of the output Loss"}},
       {"two gradients of one parameter",
        [](auto &b) {
          b.rank().programs[0]->outputs.push_back(
              std::make_unique<plan::OutputT>(*step(b).outputs[2]));
        },
        {"has two of the output Gradient of 'w'"}},
       {"a gradient of no parameter",
        [](auto &b) { step(b).outputs[2]->parameter = 2; },
        {"has an output Gradient of parameter 2; expected 0 to 1"}},
       {"a loss of a parameter",
        [](auto &b) { step(b).outputs[0]->parameter = 0; },
        {"has an output Loss of parameter 0; expected none (-1)"}},
       {"too few losses",
        [](auto &b) { step(b).outputs[0]->buffer = b.numberOf("norm"); },
        {"has its output Loss in 'norm' of 1 F32; expected 5 F32 or more"}},
       {"too small a gradient",
        [](auto &b) { step(b).outputs[2]->buffer = b.numberOf("losses"); },
        {"has its output Gradient of 'w' in 'losses' of 5 F32; expected 8 F32 or more"}},
       {"other dtype",
        [](auto &b) { b.named("check loss").dtype = plan::DType::I32; },
        {"has its output Loss in 'check loss' of 1 I32; expected 1 F32 or more"}},
       {"never written",
        [](auto &b) {
          b.named("check loss").first = 0;
          check(b).outputs[0]->buffer =
              b.buffer("nothing", plan::DType::F32, {1}, plan::BufferClass::Output, 1, 0, 0);
        },
        {"program check never writes its output Loss to 'nothing'"}},
       {"gone at the end",
        [](auto &b) { b.named("losses").last = 7; },
        {"has its output Loss in 'losses', which lives to instruction 7; expected 8"}},
       {"no norm",
        [](auto &b) { step(b).outputs.erase(step(b).outputs.begin() + 1); },
        {"program step has no output GradNorm"}},
       {"no loss",
        [](auto &b) { check(b).outputs.clear(); },
        {"program check has no output Loss"}}});
}

TEST(VerifyPlan, RefusesLoops) {
  expectRefusals(
      five,
      {{"no rounds",
        [](auto &b) { loop(b).count = 0; },
        {"program step, instruction 0 'micro-batches' has 0 rounds; expected 1 or more"}},
       {"nothing to repeat",
        [](auto &b) { loop(b).length = 0; },
        {"'micro-batches' repeats 0 instructions; expected 1 to the 8 that follow"}},
       {"over the end",
        [](auto &b) { loop(b).length = 9; },
        {"'micro-batches' repeats 9 instructions; expected 1 to the 8 that follow"}},
       {"over all numbers",
        [](auto &b) { loop(b).length = 0xFFFFFFFF; },
        {"repeats 4294967295 instructions"}},
       {"a loop within",
        [](auto &b) {
          plan::LoopT inner;
          inner.count = inner.length = 1;
          b.at(0, "take").operation.Set(inner);
        },
        {"program step, instruction 1 'take' is a loop within a loop"}},
       {"a value that the next round needs",
        [](auto &b) { b.named("weights").last = 3; },
        {"needs 'weights' through the loop of instructions 1 to 4, and it lives from 0 to 3"}},
       {"a value that was kept for after the loop",
        [](auto &b) {
          b.named("gradient").last = 8;
          insertZero(b, 0, 9, "gradient");
          b.named("gradient").last = 9;
          for (const char *name : {"losses", "sum", "norm"})
            b.named(name).last = 9;
        },
        {"needs 'gradient' through the loop of instructions 1 to 4, and it lives from 2 to 9"}}});
}

TEST(VerifyPlan, RefusesCopiesOutOfTheirBuffersInLaterRounds) {
  auto copyOf = [](PlanBuilder &b, const char *name) { return b.at(0, name).operation.AsCopy(); };
  expectRefusals(
      five,
      {{"source",
        [&](auto &b) { copyOf(b, "take")->source_step = 9; },
        {"instruction 1 'take' copies 8 bytes in each of 5 rounds with step 9 in 'weights', which "
         "has 40 bytes"}},
       {"destination",
        [&](auto &b) { copyOf(b, "keep loss")->destination_step = 5; },
        {"'keep loss' copies 4 bytes in each of 5 rounds with step 5 in 'losses', which has 20"}},
       {"backwards",
        [&](auto &b) { copyOf(b, "take")->source_step = -8; },
        {"with step -8 in 'weights'"}},
       {"overflow",
        [&](auto &b) { copyOf(b, "take")->source_step = int64_t(1) << 62; },
        {"with step 4611686018427387904 in 'weights'"}},
       {"overflow to a small number",
        [&](auto &b) {
          loop(b).count = (int64_t(1) << 62) + 1;
          copyOf(b, "take")->source_step = 8;
        },
        {"in each of 4611686018427387905 rounds"}},
       {"not declared",
        [](auto &b) { b.at(0, "take").writes.clear(); },
        {"'take' writes 'row' without declaring it"}}});
}

TEST(VerifyPlan, RefusesSumsOverMicroBatches) {
  auto sum = [](PlanBuilder &b) { return b.at(0, "sum").operation.AsAccumulate(); };
  expectRefusals(
      five,
      {{"outside of a loop",
        [](auto &b) { loop(b).length = 3; },
        {"instruction 4 'sum' adds up micro-batches outside of a loop"}},
       {"too few levels",
        [&](auto &b) { sum(b)->levels.pop_back(); },
        {"'sum' has 2 levels; 5 rounds need 3"}},
       {"too few levels for a power of two",
        [&](auto &b) {
          b = trainingPlan(4);
          sum(b)->levels.pop_back();
        },
        {"'sum' has 2 levels; 4 rounds need 3"}},
       {"a level twice",
        [&](auto &b) { sum(b)->levels[1] = sum(b)->levels[0]; },
        {"has the level 'level 0' twice, or as its source"}},
       {"a level that dies in the loop",
        [](auto &b) { b.named("level 1").first = 2; },
        {"needs 'level 1' through the loop of instructions 1 to 4, and it lives from 2 to 8"}},
       {"a level that is too small",
        [](auto &b) {
          b.named("level 1").bytes = 28;
          b.named("level 1").shape = {7};
        },
        {"needs 8 elements of 'level 1', which has 7"}}});
}

TEST(VerifyPlan, RefusesParametersThatAreNotUpdatedOnce) {
  expectRefusals(
      five, {{"never",
              [](auto &b) { replaceByZero(b, 0, 8, "sum"); },
              {"has 0 instructions that update the parameter 'w'; expected 1"}},
             {"twice",
              [](auto &b) {
                insertZero(b, 0, 8, "w");
                for (const char *name : {"losses", "sum", "norm"})
                  b.named(name).last = 9;
              },
              {"has 2 instructions that update the parameter 'w'; expected 1"}},
             {"frozen",
              [](auto &b) { b.at(0, "update").writes.push_back(b.numberOf("frozen")); },
              {"has 1 instructions that update the parameter 'frozen'; expected 0"}},
             {"in a loop",
              [](auto &b) { replaceByZero(b, 0, 4, "w"); },
              {"instruction 4 'zero' writes the parameter 'w' in a loop"}},
             {"by an evaluation",
              [](auto &b) { replaceByZero(b, 1, 0, "w"); },
              {"program check, instruction 0 'zero' writes 'w', which only training may change"}},
             {"a moment, by an evaluation",
              [](auto &b) {
                b.buffer("m", plan::DType::F32, {units}, plan::BufferClass::Optimizer);
                replaceByZero(b, 1, 0, "m");
              },
              {"writes 'm', which only training may change"}},
             {"through a part of it",
              [](auto &b) {
                uint32_t part =
                    b.buffer("part", plan::DType::F32, {1}, plan::BufferClass::Workspace);
                b.rank().buffers[part]->offset = b.named("w").offset;
                b.rank().buffers[part]->view_of = static_cast<int32_t>(b.numberOf("w"));
                replaceByZero(b, 1, 0, "part");
              },
              {"writes 'part', which only training may change"}}});
}

TEST(VerifyPlan, RefusesWhatIsReadTooEarlyOrNotAlive) {
  expectRefusals(five,
                 {{"not written",
                   [](auto &b) { b.at(0, "take").reads.push_back(b.numberOf("level 0")); },
                   {"instruction 1 'take' reads 'level 0' before anything was written to it"}},
                  {"not alive",
                   [](auto &b) { b.named("row").last = 1; },
                   {"instruction 2 'spread' touches 'row', which lives from 1 to 1"}},
                  {"of another program",
                   [](auto &b) { b.at(0, "take").writes.push_back(b.numberOf("check loss")); },
                   {"touches 'check loss' of another program"}},
                  {"no buffer",
                   [](auto &b) { b.at(0, "take").writes.push_back(999); },
                   {"'take' names buffer 999; there are 15"}}});
}

} // namespace
} // namespace ftlm::test
