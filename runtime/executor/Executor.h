// SPDX-License-Identifier: Apache-2.0
// Carries out the programs of a plan for one rank on the CPU. Allocates the arena of the plan and
// nothing else; everything that can be looked up is looked up when it is made. The plan must
// outlive it.
#pragma once

#include "runtime/device/KernelImage.h"
#include "runtime/device/ThreadPool.h"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ftlm {

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
  std::span<float> gradient(size_t parameter);
  std::span<float> moment1(size_t parameter);
  std::span<float> moment2(size_t parameter);

  bool hasProgram(std::string_view program) const;
  /// The buffer bound to a name of a program, as T; empty when the program has no such binding.
  template <typename T>
  std::span<T> input(std::string_view program, std::string_view name) {
    std::span<std::byte> bytes = bound(program, name, true);
    return {reinterpret_cast<T *>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> output(std::string_view program, std::string_view name) {
    std::span<std::byte> bytes = bound(program, name, false);
    return {reinterpret_cast<const T *>(bytes.data()), bytes.size() / sizeof(T)};
  }

  /// Runs a program. `microBatch` is the number of the micro-batch on this rank, `global` that in
  /// the step.
  void run(std::string_view program, int64_t microBatch = 0, int64_t global = 0);

  uint64_t allocatedBytes() const { return arenaBytes; }
  const std::string &isa() const { return image.isa(); }
  int threads() const { return pool.size(); }
  /// Seconds spent so far by kind of instruction (Gemm, Kernel, ...).
  const std::map<std::string, double> &profile() const { return seconds; }

private:
  using Step = std::function<void(int64_t microBatch, int64_t global)>;
  struct Instruction {
    Step step;
    double *seconds;
  };

  std::byte *address(uint32_t buffer) const;
  template <typename T>
  T *at(uint32_t buffer) const {
    return reinterpret_cast<T *>(address(buffer));
  }
  std::span<std::byte> bound(std::string_view program, std::string_view name, bool input);
  std::span<float> state(int32_t buffer) const;
  Step prepare(const plan::Instruction &instruction);
  Step prepareKernel(const plan::Kernel &kernel);
  Step prepareAccumulate(const plan::Accumulate &accumulate);

  const plan::Plan &plan;
  const plan::RankClass &rank;
  ThreadPool pool;
  KernelImage image;
  uint64_t arenaBytes = 0;
  std::byte *arena = nullptr;
  std::map<std::string, std::vector<Instruction>, std::less<>> programs;
  std::map<std::string, double> seconds;
};

} // namespace ftlm
