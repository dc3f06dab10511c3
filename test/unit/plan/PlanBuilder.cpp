// SPDX-License-Identifier: Apache-2.0
#include "test/unit/plan/PlanBuilder.h"

#include "runtime/io/Safetensors.h"
#include "runtime/plan/LoadedPlan.h"
#include "schema/PlanFile.h"
#include "schema/WorkspaceSizes.h"

#include <bit>
#include <cstring>
#include <gmock/gmock.h>
#include <xxhash.h>

namespace ftlm::test {

using plan::BufferClass;
using plan::DType;

PlanBuilder::PlanBuilder(int64_t microBatches, int64_t time) {
  plan.producer = "test";
  plan.model = "small";
  plan.config_json = "{}";
  plan.objective = "lm";
  plan.precision = "f32";
  plan.batch = plan.micro_batches = microBatches;
  plan.micro_batch = 1;
  plan.time = time;
  plan.vocabulary = plan.softmax = 4;
  plan.threads = 2;
  plan.rank_classes.push_back(std::make_unique<plan::RankClassT>());
  rank().ranks = {0};
  rank().summary = std::make_unique<plan::SummaryT>();
  MappedFile kernels(TEST_KERNELS);
  auto *bytes = reinterpret_cast<const uint8_t *>(kernels.bytes().data());
  for (const char *isa : {"x86-64-v3", "x86-64-v4"}) {
    plan.kernels.push_back(std::make_unique<plan::KernelImageT>());
    plan.kernels.back()->isa = isa;
    plan.kernels.back()->object.assign(bytes, bytes + kernels.bytes().size());
  }
}

uint32_t PlanBuilder::buffer(const std::string &name, DType dtype, std::vector<int64_t> shape,
                             BufferClass kind, int32_t program, int32_t first, int32_t last) {
  auto made = std::make_unique<plan::BufferT>();
  made->name = name;
  made->dtype = dtype;
  made->bytes = bytesOf(dtype);
  for (int64_t extent : shape)
    made->bytes *= static_cast<uint64_t>(extent);
  made->shape = std::move(shape);
  made->buffer_class = kind;
  made->program = program;
  made->first = first;
  made->last = last;
  made->offset = rank().summary->arena_bytes;
  rank().summary->arena_bytes += (made->bytes + 63) / 64 * 64;
  rank().buffers.push_back(std::move(made));
  return static_cast<uint32_t>(rank().buffers.size()) - 1;
}

plan::ProgramT &PlanBuilder::program(const std::string &name, plan::Purpose purpose) {
  rank().programs.push_back(std::make_unique<plan::ProgramT>());
  plan::ProgramT &made = *rank().programs.back();
  made.name = name;
  made.purpose = purpose;
  made.time = plan.time;
  made.stream = "compute";
  return made;
}

void PlanBuilder::parameter(const std::string &name, bool trainable) {
  auto made = std::make_unique<plan::ParameterT>();
  made->name = name;
  made->shape = {units};
  made->init = plan::InitKind::Constant;
  made->init_value = 1;
  made->trainable = trainable;
  auto state = std::make_unique<plan::ParameterStateT>();
  state->parameter = static_cast<uint32_t>(plan.parameters.size());
  state->value = static_cast<int32_t>(buffer(name, DType::F32, {units}, BufferClass::Parameter));
  plan.parameters.push_back(std::move(made));
  rank().state.push_back(std::move(state));
}

void PlanBuilder::input(plan::InputKind kind, uint32_t buffer) {
  plan::InputT made;
  made.kind = kind;
  made.buffer = buffer;
  rank().programs.back()->inputs.push_back(std::make_unique<plan::InputT>(made));
}

void PlanBuilder::output(plan::OutputKind kind, uint32_t buffer, int32_t parameter) {
  plan::OutputT made;
  made.kind = kind;
  made.buffer = buffer;
  made.parameter = parameter;
  rank().programs.back()->outputs.push_back(std::make_unique<plan::OutputT>(made));
}

uint32_t PlanBuilder::numberOf(const std::string &name) {
  for (uint32_t i = 0; i < rank().buffers.size(); ++i)
    if (rank().buffers[i]->name == name)
      return i;
  throw std::logic_error("no buffer " + name);
}
plan::BufferT &PlanBuilder::named(const std::string &name) {
  return *rank().buffers[numberOf(name)];
}
plan::InstructionT &PlanBuilder::at(size_t program, const std::string &name) {
  for (auto &instruction : rank().programs[program]->instructions)
    if (instruction->name == name)
      return *instruction;
  throw std::logic_error("no instruction " + name);
}

static plan::KernelT kernel(const char *symbol, std::vector<uint32_t> arguments) {
  plan::KernelT made;
  made.symbol = symbol;
  made.arguments = std::move(arguments);
  made.units = units;
  made.grain = 2;
  return made;
}

static plan::CopyT copy(uint32_t source, uint32_t destination, int64_t sourceStep = 0,
                        int64_t destinationStep = 0) {
  plan::CopyT made;
  made.source = source;
  made.destination = destination;
  made.source_step = sourceStep;
  made.destination_step = destinationStep;
  return made;
}

PlanBuilder trainingPlan(int64_t m) {
  PlanBuilder b(m);
  b.parameter("w", true);
  b.parameter("frozen", false);
  uint32_t w = b.numberOf("w");
  // Loop 0, its body 1 to 4, then one instruction for each level that holds a part, then two.
  auto levelCount = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(m)));
  int32_t last = 4 + std::popcount(static_cast<uint64_t>(m)) + 2;
  uint32_t tokens = b.buffer("tokens", DType::I32, {m, 2}, BufferClass::Input, 0, 0, 4);
  uint32_t weights = b.buffer("weights", DType::F32, {m, 2}, BufferClass::Input, 0, 0, 4);
  uint32_t row = b.buffer("row", DType::F32, {2}, BufferClass::Activation, 0, 1, 2);
  uint32_t gradient = b.buffer("gradient", DType::F32, {units}, BufferClass::Gradient, 0, 2, 4);
  uint32_t loss = b.buffer("loss", DType::F32, {1}, BufferClass::Activation, 0, 2, 3);
  uint32_t losses = b.buffer("losses", DType::F32, {m}, BufferClass::Output, 0, 0, last);
  uint32_t sum = b.buffer("sum", DType::F32, {units}, BufferClass::Gradient, 0, 5, last);
  uint32_t norm = b.buffer("norm", DType::F32, {1}, BufferClass::Output, 0, 5, last);
  plan::AccumulateT accumulate;
  accumulate.source = gradient;
  accumulate.add = "testAdd";
  accumulate.units = units;
  for (size_t l = 0; l < levelCount; ++l)
    accumulate.levels.push_back(b.buffer("level " + std::to_string(l), DType::F32, {units},
                                         BufferClass::Gradient, 0, 0, last));
  std::vector<uint32_t> levels = accumulate.levels, written = levels;
  written.push_back(gradient);

  b.program("step", plan::Purpose::Train);
  plan::LoopT loop;
  loop.count = m;
  loop.length = 4;
  b.instruction("micro-batches", loop, {}, {});
  b.instruction("take", copy(weights, row, 8), {weights}, {row}, 1);
  b.instruction("spread", kernel("testSpread", {row, gradient, loss}), {row}, {gradient, loss}, 10);
  b.instruction("keep loss", copy(loss, losses, 0, 4), {loss}, {losses}, 100);
  b.instruction("sum", accumulate, {gradient}, written, 1000);
  bool first = true;
  for (size_t l = 0; l < levels.size(); ++l)
    if (m >> l & 1) {
      if (first)
        b.instruction("lowest", copy(levels[l], sum), {levels[l]}, {sum});
      else
        b.instruction("rest", kernel("testAdd", {levels[l], sum, sum}), {levels[l], sum}, {sum});
      first = false;
    }
  b.instruction("norm", copy(sum, norm), {sum}, {norm}, 10000);
  b.instruction("update", kernel("testAdd", {w, sum, w}), {w, sum}, {w}, 100000);
  b.input(plan::InputKind::Tokens, tokens);
  b.input(plan::InputKind::Weights, weights);
  b.output(plan::OutputKind::Loss, losses);
  b.output(plan::OutputKind::GradNorm, norm);
  b.output(plan::OutputKind::Gradient, sum, 0);

  uint32_t given = b.buffer("check weights", DType::F32, {1, 2}, BufferClass::Input, 1, 0, 0);
  uint32_t result = b.buffer("check loss", DType::F32, {1}, BufferClass::Output, 1, 0, 0);
  b.program("check", plan::Purpose::Evaluate);
  b.instruction("loss", copy(given, result), {given}, {result}, 7);
  b.input(plan::InputKind::Weights, given);
  b.output(plan::OutputKind::Loss, result);
  return b;
}

/// What the two tables of attention have in common.
template <typename Table>
static void describe(Table &t, uint32_t qkv, uint32_t out, uint32_t lse, uint32_t workspace) {
  t.q = t.k = t.v = qkv;
  t.out = out;
  t.lse = lse;
  t.workspace = workspace;
  t.batch = 1;
  t.time = 2;
  t.heads = 2;
  t.kv_heads = 1;
  t.head_size = 4;
  t.offsets = {0, 8, 12};
  t.strides = {16, 16, 16};
  t.scale = 0.5;
}

PlanBuilder attentionPlan() {
  PlanBuilder b(1);
  uint32_t given = b.buffer("weights", DType::F32, {1, 32}, BufferClass::Input, 0, 0, 0);
  uint32_t qkv = b.buffer("qkv", DType::F32, {2, 16}, BufferClass::Activation, 0, 0, 2);
  uint32_t out = b.buffer("out", DType::F32, {2, 8}, BufferClass::Output, 0, 0, 2);
  uint32_t lse = b.buffer("lse", DType::F32, {2, 2}, BufferClass::Activation, 0, 0, 2);
  uint32_t dQkv = b.buffer("d_qkv", DType::F32, {2, 16}, BufferClass::Activation, 0, 2, 2);
  auto scratch = static_cast<int64_t>(attentionWorkspaceBytes(2, 4) / 4 * b.plan.threads);
  uint32_t workspace =
      b.buffer("workspace", DType::F32, {scratch}, BufferClass::Workspace, 0, 1, 2);
  b.program("check", plan::Purpose::Evaluate);
  b.instruction("take", copy(given, qkv), {given}, {qkv});
  plan::AttentionT attention;
  describe(attention, qkv, out, lse, workspace);
  b.instruction("attention", attention, {qkv}, {out, lse, workspace});
  plan::AttentionGradT gradient;
  describe(gradient, qkv, out, lse, workspace);
  gradient.d_out = out;
  gradient.d_q = gradient.d_k = gradient.d_v = dQkv;
  b.instruction("gradient", gradient, {qkv, out, lse}, {dQkv, workspace});
  b.input(plan::InputKind::Weights, given);
  b.output(plan::OutputKind::Loss, out);
  return b;
}

std::vector<uint8_t> packed(const plan::PlanT &plan) {
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &plan));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

std::vector<std::byte> fileOf(const plan::PlanT &plan, uint32_t version) {
  std::vector<uint8_t> payload = packed(plan);
  XXH128_hash_t hash = XXH3_128bits(payload.data(), payload.size());
  plan::FileHeader header{{}, version, sizeof(header), payload.size(), hash.low64, hash.high64};
  std::memcpy(header.magic, plan::fileMagic, sizeof(header.magic));
  std::vector<std::byte> result(sizeof(header) + payload.size());
  std::memcpy(result.data(), &header, sizeof(header));
  std::memcpy(result.data() + sizeof(header), payload.data(), payload.size());
  return result;
}

std::string verdict(const plan::PlanT &plan) {
  std::vector<uint8_t> bytes = packed(plan);
  try {
    verifyPlan(*plan::GetPlan(bytes.data()), "test");
  } catch (const Error &error) {
    EXPECT_EQ(error.where, "plan test");
    return error.found;
  }
  return "";
}

void expectRefusals(const std::function<PlanBuilder()> &make, const std::vector<Refusal> &list) {
  for (const Refusal &refusal : list) {
    SCOPED_TRACE(refusal.name);
    PlanBuilder plan = make();
    refusal.spoil(plan);
    std::string said = verdict(plan.plan);
    for (const std::string &words : refusal.words)
      EXPECT_THAT(said, testing::HasSubstr(words));
  }
}

} // namespace ftlm::test
