// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/Executor.h"

#include "runtime/base/Error.h"
#include "runtime/device/Attention.h"
#include "runtime/device/Gemm.h"

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
    std::vector<Instruction> &list = programs[program->name()->str()];
    for (const plan::Instruction *instruction : *program->instructions())
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
std::span<float> Executor::gradient(size_t i) {
  return state(rank.state()->Get(static_cast<uint32_t>(i))->gradient());
}
std::span<float> Executor::moment1(size_t i) {
  return state(rank.state()->Get(static_cast<uint32_t>(i))->moment1());
}
std::span<float> Executor::moment2(size_t i) {
  return state(rank.state()->Get(static_cast<uint32_t>(i))->moment2());
}

bool Executor::hasProgram(std::string_view program) const {
  return programs.find(program) != programs.end();
}

std::span<std::byte> Executor::bound(std::string_view name, std::string_view binding, bool input) {
  for (const plan::Program *program : *rank.programs())
    if (program->name()->string_view() == name)
      for (const plan::Binding *found : input ? *program->inputs() : *program->outputs())
        if (found->name()->string_view() == binding)
          return {address(found->buffer()), rank.buffers()->Get(found->buffer())->bytes()};
  return {};
}

void Executor::run(std::string_view program, int64_t microBatch, int64_t global) {
  auto found = programs.find(program);
  FTLM_CHECK(found != programs.end(), "the plan has no program " + std::string(program));
  auto last = std::chrono::steady_clock::now();
  for (Instruction &instruction : found->second) {
    instruction.step(microBatch, global);
    auto now = std::chrono::steady_clock::now();
    *instruction.seconds += std::chrono::duration<double>(now - last).count();
    last = now;
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
          grain = kernel.grain()](int64_t, int64_t) {
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
          grain = accumulate.grain()](int64_t, int64_t global) {
    auto ones = static_cast<size_t>(std::countr_one(static_cast<uint64_t>(global)));
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

/// What the two tables of attention have in common.
template <typename Table>
static AttentionCall callOf(const Table &t, uint64_t workspaceFloats, int64_t threads) {
  AttentionCall call{};
  call.batch = t.batch();
  call.time = t.time();
  call.heads = t.heads();
  call.kvHeads = t.kv_heads();
  call.headSize = t.head_size();
  call.scale = static_cast<float>(t.scale());
  call.dropout = t.dropout();
  call.site = static_cast<uint32_t>(t.site());
  call.workspaceFloats = static_cast<int64_t>(workspaceFloats) / threads;
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
    return [this, call](int64_t, int64_t) { gemm(pool, call); };
  }
  case plan::Operation::Attention: {
    const plan::Attention &t = *instruction.operation_as_Attention();
    AttentionCall call = callOf(t, rank.buffers()->Get(t.workspace())->bytes() / 4, plan.threads());
    call.qkv = at<float>(t.qkv());
    call.workspace = at<float>(t.workspace());
    if (call.dropout > 0) {
      call.random = at<int64_t>(static_cast<uint32_t>(t.random()));
      call.examples = at<int32_t>(static_cast<uint32_t>(t.examples()));
    }
    return [this, call, out = at<float>(t.out()), lse = at<float>(t.lse())](int64_t, int64_t) {
      attention(pool, call, out, lse);
    };
  }
  case plan::Operation::AttentionGrad: {
    const plan::AttentionGrad &t = *instruction.operation_as_AttentionGrad();
    AttentionCall call = callOf(t, rank.buffers()->Get(t.workspace())->bytes() / 4, plan.threads());
    call.qkv = at<float>(t.qkv());
    call.workspace = at<float>(t.workspace());
    if (call.dropout > 0) {
      call.random = at<int64_t>(static_cast<uint32_t>(t.random()));
      call.examples = at<int32_t>(static_cast<uint32_t>(t.examples()));
    }
    return [this, call, dOut = at<float>(t.d_out()), out = at<float>(t.out()),
            lse = at<float>(t.lse()), dQkv = at<float>(t.d_qkv())](int64_t, int64_t) {
      attentionGrad(pool, call, dOut, out, lse, dQkv);
    };
  }
  case plan::Operation::Copy: {
    const plan::Copy &c = *instruction.operation_as_Copy();
    size_t bytes = rank.buffers()->Get(c.source())->bytes();
    return [from = address(c.source()), to = address(c.destination()), bytes,
            each = c.per_micro_batch()](int64_t microBatch, int64_t) {
      std::memcpy(to + (each ? static_cast<size_t>(microBatch) * bytes : 0), from, bytes);
    };
  }
  case plan::Operation::Zero: {
    uint32_t buffer = instruction.operation_as_Zero()->buffer();
    return [to = address(buffer), bytes = rank.buffers()->Get(buffer)->bytes()](int64_t, int64_t) {
      std::memset(to, 0, bytes);
    };
  }
  case plan::Operation::Accumulate:
    return prepareAccumulate(*instruction.operation_as_Accumulate());
  default:
    throw badInput("plan", "has an operation that this program does not know");
  }
}

} // namespace ftlm
