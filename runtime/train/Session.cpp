// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Session.h"

#include "runtime/device/Philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <sys/resource.h>

namespace ftlm {

Session::Session(const std::filesystem::path &path, int threads) : loaded(LoadedPlan::load(path)) {
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

static void fill(Executor &run, const char *program, const MicroBatch &data) {
  auto copy = [&](const auto &from, auto to) {
    std::copy_n(from.begin(), std::min(from.size(), to.size()), to.begin());
  };
  copy(data.tokens, run.input<int32_t>(program, "tokens"));
  copy(data.targets, run.input<int32_t>(program, "targets"));
  copy(data.weights, run.input<float>(program, "weights"));
  copy(data.examples, run.input<int32_t>(program, "examples"));
}

StepResult Session::step(const StepData &data, int64_t step, uint64_t seed, double rate,
                         int64_t updates, const Hyper &hyper) {
  std::span<int64_t> random = run->input<int64_t>("micro_batch", "random");
  random[0] = static_cast<int64_t>(seed);
  random[1] = step;
  for (size_t g = 0; g < data.microBatches.size(); ++g) {
    fill(*run, "micro_batch", data.microBatches[g]);
    run->run("micro_batch", static_cast<int64_t>(g), static_cast<int64_t>(g));
  }
  double t = static_cast<double>(updates + 1);
  std::span<float> h = run->input<float>("update", "hyper");
  const double numbers[] = {rate,
                            hyper.beta1,
                            hyper.beta2,
                            hyper.eps,
                            hyper.weightDecay,
                            hyper.clip,
                            1 - std::pow(hyper.beta1, t),
                            1 - std::pow(hyper.beta2, t)};
  std::transform(std::begin(numbers), std::end(numbers), h.begin(),
                 [](double x) { return static_cast<float>(x); });
  run->run("update");
  return {treeSum(run->output<float>("micro_batch", "losses")),
          run->output<float>("update", "grad_norm")[0]};
}

double Session::evaluate(const MicroBatch &data) {
  fill(*run, "evaluate", data);
  run->run("evaluate");
  return run->output<float>("evaluate", "loss")[0];
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
