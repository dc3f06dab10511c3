// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Session.h"

#include "runtime/device/Philox.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

namespace ftlm {

Session::Session(const std::filesystem::path &path, int threads)
    : name(path.string()), loaded(LoadedPlan::load(path)) {
  int64_t most =
      std::min<int64_t>(plan().threads(), std::max(1u, std::thread::hardware_concurrency()));
  run = std::make_unique<Executor>(
      plan(), ExecutorOptions{threads > 0 ? threads : static_cast<int>(most), ""});
}

LoadReport Session::load(std::span<const std::filesystem::path> sources) {
  return loadParameters(sources, plan(), [this](size_t i) { return run->value(i); });
}

void Session::initialize(uint64_t seed) {
  for (size_t i = 0; i < parameters(); ++i) {
    const plan::Parameter &parameter = *plan().parameters()->Get(static_cast<uint32_t>(i));
    std::span<float> values = run->value(i);
    if (parameter.init() == plan::InitKind::Normal)
      fillNormal(values, parameter.init_value(), seed, 0x10000u + static_cast<uint32_t>(i));
    else
      std::fill(values.begin(), values.end(), static_cast<float>(parameter.init_value()));
  }
}

const plan::Program &Session::require(plan::Purpose purpose) const {
  if (const plan::Program *found = run->program(purpose))
    return *found;
  std::vector<std::string> known;
  for (const plan::Program *program : *plan().rank_classes()->Get(0)->programs())
    known.push_back(plan::EnumNamePurpose(program->purpose()));
  throw badInput(name,
                 fmt::format("has no program for the purpose {}; its programs are for: {}",
                             plan::EnumNamePurpose(purpose),
                             known.empty() ? "nothing" : fmt::format("{}", fmt::join(known, ", "))),
                 "use a plan that was compiled with it");
}

/// Puts the micro-batches behind one another into the inputs of a program that has them.
void Session::fill(plan::Purpose purpose, std::span<const MicroBatch> microBatches) {
  auto put = [&](auto to, auto member) {
    for (const MicroBatch &data : microBatches) {
      const auto &from = data.*member;
      size_t count = std::min(from.size(), to.size());
      std::copy_n(from.begin(), count, to.begin());
      to = to.subspan(count);
    }
  };
  put(run->input<int32_t>(purpose, plan::InputKind::Tokens), &MicroBatch::tokens);
  put(run->input<int32_t>(purpose, plan::InputKind::Targets), &MicroBatch::targets);
  put(run->input<float>(purpose, plan::InputKind::Weights), &MicroBatch::weights);
  put(run->input<int32_t>(purpose, plan::InputKind::Examples), &MicroBatch::examples);
}

StepResult Session::step(const StepData &data, int64_t step, uint64_t seed, double rate,
                         int64_t updates, const Hyper &hyper) {
  const auto train = plan::Purpose::Train;
  require(train);
  auto microBatches = static_cast<size_t>(plan().micro_batches());
  FTLM_CHECK(
      data.microBatches.size() == microBatches,
      fmt::format("a step of {} micro-batches got {}", microBatches, data.microBatches.size()));
  fill(train, data.microBatches);
  auto numbers = [](auto to, const auto &from) {
    std::transform(from.begin(), from.begin() + std::min(from.size(), to.size()), to.begin(),
                   [](auto x) { return static_cast<typename decltype(to)::value_type>(x); });
  };
  numbers(run->input<int64_t>(train, plan::InputKind::Random),
          std::array{static_cast<int64_t>(seed), step});
  double t = static_cast<double>(updates + 1);
  numbers(run->input<float>(train, plan::InputKind::Hyper),
          std::array{rate, hyper.beta1, hyper.beta2, hyper.eps, hyper.weightDecay, hyper.clip,
                     1 - std::pow(hyper.beta1, t), 1 - std::pow(hyper.beta2, t)});
  run->run(train);
  return {treeSum(run->output<float>(train, plan::OutputKind::Loss).first(microBatches)),
          run->output<float>(train, plan::OutputKind::GradNorm)[0]};
}

double Session::evaluate(const MicroBatch &data) {
  const auto purpose = plan::Purpose::Evaluate;
  require(purpose);
  fill(purpose, {&data, 1});
  run->run(purpose);
  return run->output<float>(purpose, plan::OutputKind::Loss)[0];
}

uint64_t Session::peakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

double treeSum(std::span<const float> values) {
  if (values.empty())
    return 0;
  if (values.size() == 1)
    return values[0];
  size_t half = std::bit_ceil(values.size()) / 2;
  return static_cast<float>(treeSum(values.first(half)) + treeSum(values.subspan(half)));
}

} // namespace ftlm
