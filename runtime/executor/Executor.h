// SPDX-License-Identifier: Apache-2.0
// Carries out the programs of a plan for one rank on the CPU; programs and their buffers are found
// by what they are for. Allocates the arena of the plan and nothing else; everything that can be
// looked up is looked up when it is made. The plan must be verified and outlive it.
#pragma once

#include "runtime/device/KernelImage.h"
#include "runtime/device/ThreadPool.h"

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ftlm {

struct AttentionCall;

struct ExecutorOptions {
  int threads = 1;
  std::string isa; // "" takes the best instruction set of the plan that the processor has
};

class Executor {
public:
  Executor(const plan::Plan &plan, ExecutorOptions options);
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// The state of parameter number i; empty where the plan has none.
  std::span<float> value(size_t parameter);
  std::span<float> moment1(size_t parameter);
  std::span<float> moment2(size_t parameter);

  /// The program for a purpose; null when the plan has none.
  const plan::Program *program(plan::Purpose purpose) const;
  /// An input of a program, to be filled before it runs; empty when the program has none such.
  template <typename T>
  std::span<T> input(plan::Purpose purpose, plan::InputKind kind) const {
    std::span<std::byte> bytes = inputBytes(purpose, kind);
    return {reinterpret_cast<T *>(bytes.data()), bytes.size() / sizeof(T)};
  }
  /// An output of a program, valid from its run to the next run of any program; empty when the
  /// program has none such. `parameter` is that of a gradient.
  template <typename T>
  std::span<const T> output(plan::Purpose purpose, plan::OutputKind kind,
                            int32_t parameter = -1) const {
    std::span<const std::byte> bytes = outputBytes(purpose, kind, parameter);
    return {reinterpret_cast<const T *>(bytes.data()), bytes.size() / sizeof(T)};
  }

  /// Runs the program for a purpose, which the plan must have.
  void run(plan::Purpose purpose);

  uint64_t allocatedBytes() const { return arenaBytes; }
  const std::string &isa() const { return image.isa(); }
  int threads() const { return pool.size(); }
  /// Seconds spent so far by kind of instruction (Gemm, Kernel, ...).
  const std::map<std::string, double> &profile() const { return seconds; }

private:
  /// `round` counts the rounds of the loop around an instruction; 0 outside loops.
  using Step = std::function<void(int64_t round)>;
  struct Instruction {
    Step step;
    double *seconds = nullptr;
    int64_t count = 1; // a loop has no step: the next `length` instructions run `count` times
    size_t length = 0;
  };

  std::byte *address(uint32_t buffer) const;
  template <typename T>
  T *at(uint32_t buffer) const {
    return reinterpret_cast<T *>(address(buffer));
  }
  std::span<std::byte> contents(uint32_t buffer) const;
  std::span<std::byte> inputBytes(plan::Purpose purpose, plan::InputKind kind) const;
  std::span<const std::byte> outputBytes(plan::Purpose purpose, plan::OutputKind kind,
                                         int32_t parameter) const;
  std::span<float> state(int32_t buffer) const;
  Step prepare(const plan::Instruction &instruction);
  Step prepareKernel(const plan::Kernel &kernel);
  Step prepareCopy(const plan::Copy &copy);
  Step prepareAccumulate(const plan::Accumulate &accumulate);
  template <typename Table>
  AttentionCall attentionCall(const Table &table) const;

  const plan::Plan &plan;
  const plan::RankClass &rank;
  ThreadPool pool;
  KernelImage image;
  uint64_t arenaBytes = 0;
  std::byte *arena = nullptr;
  std::map<plan::Purpose, std::vector<Instruction>> programs;
  std::map<std::string, double> seconds;
};

} // namespace ftlm
