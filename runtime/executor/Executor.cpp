// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/Executor.h"

#include "runtime/base/Error.h"
#include "runtime/device/Attention.h"
#include "runtime/device/Gemm.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>

namespace ftlm {

Executor::Executor(const plan::Plan &thePlan, ExecutorOptions options)
    : plan(thePlan), rank(*thePlan.rank_classes()->Get(0)), pool(options.threads),
      image(thePlan, options.isa) {
  if (options.threads > plan.threads())
    throw badInput("--threads",
                   fmt::format("{} is more than the {} that the plan has workspace for",
                               options.threads, plan.threads()),
                   "compile the plan with a larger --threads");
  arenaBytes = rank.summary()->arena_bytes();
  void *memory =
      mmap(nullptr, arenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ExitCode::Unsupported, "arena",
                fmt::format("{} bytes cannot be allocated: {}", arenaBytes, std::strerror(errno)),
                "a smaller --micro-batch needs less");
  arena = static_cast<std::byte *>(memory);
  // Pages of 2 MiB save time in the address translation; it's no fault when the system has none.
  (void)madvise(memory, arenaBytes, MADV_HUGEPAGE);
  for (const plan::Program *program : *rank.programs()) {
    std::vector<Instruction> &list = programs[program->purpose()];
    for (const plan::Instruction *instruction : *program->instructions())
      if (const plan::Loop *loop = instruction->operation_as_Loop())
        list.push_back({nullptr, nullptr, loop->count(), loop->length()});
      else
        list.push_back({prepare(*instruction),
                        &seconds[plan::EnumNameOperation(instruction->operation_type())]});
  }
}

Executor::~Executor() {
  munmap(arena, arenaBytes);
}

std::byte *Executor::address(uint32_t buffer) const {
  return arena + rank.buffers()->Get(buffer)->offset();
}

std::span<float> Executor::state(int32_t buffer) const {
  if (buffer < 0)
    return {};
  auto index = static_cast<uint32_t>(buffer);
  return {at<float>(index), rank.buffers()->Get(index)->bytes() / sizeof(float)};
}
std::span<float> Executor::value(size_t i) {
  return state(rank.state()->Get(static_cast<uint32_t>(i))->value());
}
std::span<float> Executor::moment1(size_t i) {
  return state(rank.state()->Get(static_cast<uint32_t>(i))->moment1());
}
std::span<float> Executor::moment2(size_t i) {
  return state(rank.state()->Get(static_cast<uint32_t>(i))->moment2());
}

const plan::Program *Executor::program(plan::Purpose purpose) const {
  for (const plan::Program *program : *rank.programs())
    if (program->purpose() == purpose)
      return program;
  return nullptr;
}

std::span<std::byte> Executor::contents(uint32_t buffer) const {
  return {address(buffer), rank.buffers()->Get(buffer)->bytes()};
}

std::span<std::byte> Executor::inputBytes(plan::Purpose purpose, plan::InputKind kind) const {
  if (const plan::Program *found = program(purpose))
    for (const plan::Input *input : *found->inputs())
      if (input->kind() == kind)
        return contents(input->buffer());
  return {};
}

std::span<const std::byte> Executor::outputBytes(plan::Purpose purpose, plan::OutputKind kind,
                                                 int32_t parameter) const {
  if (const plan::Program *found = program(purpose))
    for (const plan::Output *output : *found->outputs())
      if (output->kind() == kind && output->parameter() == parameter)
        return contents(output->buffer());
  return {};
}

void Executor::run(plan::Purpose purpose) {
  auto found = programs.find(purpose);
  FTLM_CHECK(found != programs.end(),
             fmt::format("the plan has no program for {}", plan::EnumNamePurpose(purpose)));
  const std::vector<Instruction> &list = found->second;
  auto last = std::chrono::steady_clock::now();
  auto carryOut = [&](const Instruction &instruction, int64_t round) {
    instruction.step(round);
    auto now = std::chrono::steady_clock::now();
    *instruction.seconds += std::chrono::duration<double>(now - last).count();
    last = now;
  };
  for (size_t i = 0; i < list.size(); i += 1 + list[i].length) {
    if (list[i].length == 0)
      carryOut(list[i], 0);
    for (int64_t round = 0; round < (list[i].length ? list[i].count : 0); ++round)
      for (size_t j = 1; j <= list[i].length; ++j)
        carryOut(list[i + j], round);
  }
}

Executor::Step Executor::prepareKernel(const plan::Kernel &kernel) {
  KernelFunction function = image.find(kernel.symbol()->str());
  std::vector<void *> arguments;
  for (uint32_t buffer : *kernel.arguments())
    arguments.push_back(address(buffer));
  std::vector<int64_t> scalars;
  if (kernel.scalars())
    scalars.assign(kernel.scalars()->begin(), kernel.scalars()->end());
  return [this, function, arguments, scalars, units = kernel.units(),
          grain = kernel.grain()](int64_t) {
    pool.parallelFor(units, grain, [&](int64_t begin, int64_t end, int) {
      function(arguments.data(), scalars.data(), begin, end);
    });
  };
}

Executor::Step Executor::prepareAccumulate(const plan::Accumulate &accumulate) {
  KernelFunction add = image.find(accumulate.add()->str());
  std::vector<float *> levels;
  for (uint32_t level : *accumulate.levels())
    levels.push_back(at<float>(level));
  float *source = at<float>(accumulate.source());
  return [this, add, levels, source, units = accumulate.units(),
          grain = accumulate.grain()](int64_t round) {
    auto ones = static_cast<size_t>(std::countr_one(static_cast<uint64_t>(round)));
    for (size_t level = 0; level < ones; ++level) {
      void *arguments[] = {levels[level], source, source};
      pool.parallelFor(units, grain, [&](int64_t begin, int64_t end, int) {
        add(arguments, nullptr, begin, end);
      });
    }
    pool.parallelFor(units, grain, [&](int64_t begin, int64_t end, int) {
      std::copy(source + begin, source + end, levels[ones] + begin);
    });
  };
}

/// Packed queries, keys and values, as [q heads | k heads | v heads] of a position.
template <typename T, typename Table>
static std::array<HeadRows<T>, 3> unpack(const Table &t, T *qkv) {
  int64_t stride = (t.heads() + 2 * t.kv_heads()) * t.head_size();
  return {{{qkv, stride},
           {qkv + t.heads() * t.head_size(), stride},
           {qkv + (t.heads() + t.kv_heads()) * t.head_size(), stride}}};
}

Executor::Step Executor::prepareCopy(const plan::Copy &copy) {
  std::span<std::byte> from = contents(copy.source()), to = contents(copy.destination());
  // Parts of one buffer may meet: memmove.
  return [from = from.data(), to = to.data(), bytes = std::min(from.size(), to.size()),
          fromStep = copy.source_step(), toStep = copy.destination_step()](int64_t round) {
    std::memmove(to + round * toStep, from + round * fromStep, bytes);
  };
}

/// What the two tables of attention have in common.
template <typename Table>
AttentionCall Executor::attentionCall(const Table &t) const {
  AttentionCall call{};
  call.batch = t.batch();
  call.time = t.time();
  call.heads = t.heads();
  call.kvHeads = t.kv_heads();
  call.headSize = t.head_size();
  call.scale = static_cast<float>(t.scale());
  call.dropout = t.dropout();
  call.site = static_cast<uint32_t>(t.site());
  call.q = {at<float>(t.q()) + t.offsets()->Get(0), t.strides()->Get(0)};
  call.k = {at<float>(t.k()) + t.offsets()->Get(1), t.strides()->Get(1)};
  call.v = {at<float>(t.v()) + t.offsets()->Get(2), t.strides()->Get(2)};
  call.workspace = at<float>(t.workspace());
  call.workspaceFloats =
      static_cast<int64_t>(contents(t.workspace()).size() / sizeof(float)) / plan.threads();
  if (call.dropout > 0) {
    call.random = at<int64_t>(static_cast<uint32_t>(t.random()));
    call.examples = at<int32_t>(static_cast<uint32_t>(t.examples()));
  }
  return call;
}

Executor::Step Executor::prepare(const plan::Instruction &instruction) {
  switch (instruction.operation_type()) {
  case plan::Operation::Kernel:
    return prepareKernel(*instruction.operation_as_Kernel());
  case plan::Operation::Gemm: {
    const plan::Gemm &g = *instruction.operation_as_Gemm();
    GemmCall call{at<float>(g.a()),
                  at<float>(g.b()),
                  g.bias() >= 0 ? at<float>(static_cast<uint32_t>(g.bias())) : nullptr,
                  at<float>(g.c()),
                  g.m(),
                  g.n(),
                  g.k(),
                  g.lda(),
                  g.ldb(),
                  g.ldc(),
                  g.transpose_a(),
                  g.transpose_b(),
                  g.tile_m(),
                  g.tile_n()};
    return [this, call](int64_t) { gemm(pool, call); };
  }
  case plan::Operation::Attention: {
    const plan::Attention &t = *instruction.operation_as_Attention();
    return [this, call = attentionCall(t), out = at<float>(t.out()),
            lse = at<float>(t.lse())](int64_t) { attention(pool, call, out, lse); };
  }
  case plan::Operation::AttentionGrad: {
    const plan::AttentionGrad &t = *instruction.operation_as_AttentionGrad();
    auto rows = [&](uint32_t buffer, uint32_t i) {
      return HeadRows<float>{at<float>(buffer) + t.offsets()->Get(i), t.strides()->Get(i)};
    };
    return
        [this, call = attentionCall(t), dOut = at<float>(t.d_out()), out = at<float>(t.out()),
         lse = at<float>(t.lse()), dQ = rows(t.d_q(), 0), dK = rows(t.d_k(), 1),
         dV = rows(t.d_v(), 2)](int64_t) { attentionGrad(pool, call, dOut, out, lse, dQ, dK, dV); };
  }
  case plan::Operation::Copy:
    return prepareCopy(*instruction.operation_as_Copy());
  case plan::Operation::Zero:
    return [to = contents(instruction.operation_as_Zero()->buffer())](int64_t) {
      std::memset(to.data(), 0, to.size());
    };
  case plan::Operation::Accumulate:
    return prepareAccumulate(*instruction.operation_as_Accumulate());
  default:
    throw badInput("plan", "has an operation that this program does not know");
  }
}

} // namespace ftlm
