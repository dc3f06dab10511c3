// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Step.h"

#include "runtime/train/Report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ftlm {
namespace {

/// A tensor of the batch file with the shape [steps, batch, time].
template <typename T>
std::span<const T> tensorOf(const SafetensorsFile &file, const StepOptions &o,
                            const plan::Plan &plan, const char *name, plan::DType dtype) {
  const TensorView *tensor = file.find(name);
  if (!tensor)
    throw badInput(o.batch.string(), fmt::format("has no tensor '{}'", name),
                   "expected tokens, targets and weights");
  if (tensor->dtype != dtype || tensor->shape.size() != 3 || tensor->shape[0] < o.steps ||
      tensor->shape[1] != plan.batch() || tensor->shape[2] != plan.time())
    throw badInput(o.batch.string(),
                   fmt::format("has '{}' of {} [{}]; expected {} [{} or more, {}, {}]", name,
                               tensor->dtypeName(), fmt::join(tensor->shape, ", "),
                               plan::EnumNameDType(dtype), o.steps, plan.batch(), plan.time()));
  return {reinterpret_cast<const T *>(tensor->data.data()), tensor->data.size() / sizeof(T)};
}

/// The micro-batches of one step.
StepData cut(std::span<const int32_t> tokens, std::span<const int32_t> targets,
             std::span<const float> weights, int64_t step, const plan::Plan &plan) {
  StepData data;
  int64_t time = plan.time(), mb = plan.micro_batch();
  for (int64_t g = 0; g < plan.micro_batches(); ++g) {
    MicroBatch micro;
    auto size = static_cast<size_t>(mb * time);
    int64_t rows = std::min(mb, plan.batch() - g * mb);
    auto from = static_cast<std::ptrdiff_t>((step * plan.batch() + g * mb) * time);
    auto take = [&](auto source, auto &target) {
      target.assign(size, {});
      std::copy_n(source.begin() + from, rows * time, target.begin());
    };
    take(tokens, micro.tokens);
    take(targets, micro.targets);
    take(weights, micro.weights);
    for (int64_t row = 0; row < mb; ++row)
      micro.examples.push_back(static_cast<int32_t>(g * mb + row));
    data.microBatches.push_back(std::move(micro));
  }
  return data;
}

/// Whether each step has a target that counts. Throws on weights that are no numbers, and when no
/// step has one.
std::vector<bool> countedSteps(std::span<const float> weights, const StepOptions &o,
                               const plan::Plan &plan) {
  auto size = static_cast<size_t>(plan.batch() * plan.time());
  for (size_t i = 0; i < weights.size(); ++i)
    if (!std::isfinite(weights[i]))
      throw badInput(o.batch.string(),
                     fmt::format("has weight {} in step {}, sequence {}, position {}", weights[i],
                                 i / size, i % size / static_cast<size_t>(plan.time()),
                                 i % static_cast<size_t>(plan.time())));
  std::vector<bool> counted;
  for (; !weights.empty(); weights = weights.subspan(size))
    counted.push_back(std::any_of(weights.begin(), weights.begin() + static_cast<ptrdiff_t>(size),
                                  [](float weight) { return weight != 0; }));
  if (std::find(counted.begin(), counted.end(), true) == counted.end())
    throw badInput(o.batch.string(), "has no target that counts: all its weights are 0");
  return counted;
}

} // namespace

void runSteps(const StepOptions &o) {
  Session session(o.plan, o.threads);
  const plan::Plan &plan = session.plan();
  for (const std::string &name : session.load(o.init).ignored)
    fmt::print(stderr, "note: {} is ignored; it is no parameter\n", name);
  SafetensorsFile batch = SafetensorsFile::open(o.batch);
  auto tokens = tensorOf<int32_t>(batch, o, plan, "tokens", plan::DType::I32);
  auto targets = tensorOf<int32_t>(batch, o, plan, "targets", plan::DType::I32);
  auto weights = tensorOf<float>(batch, o, plan, "weights", plan::DType::F32);
  for (auto list : {tokens, targets})
    for (int32_t id : list)
      if (id < 0 || id >= plan.vocabulary())
        throw badInput(o.batch.string(),
                       fmt::format("has id {}; the vocabulary has {}", id, plan.vocabulary()));

  std::vector<bool> counted = countedSteps(weights, o, plan);
  MaskedSteps masked;
  std::vector<float> losses, norms;
  std::vector<std::vector<float>> kept;
  std::vector<TensorView> dump;
  auto add = [&](const std::string &prefix, size_t i, std::span<const float> values) {
    const plan::Parameter &parameter = *plan.parameters()->Get(static_cast<uint32_t>(i));
    std::vector<int64_t> shape(parameter.shape()->begin(), parameter.shape()->end());
    if (parameter.view() > 0) {
      values = values.first(values.size() / static_cast<size_t>(shape[0]) *
                            static_cast<size_t>(parameter.view()));
      shape[0] = parameter.view();
    }
    kept.emplace_back(values.begin(), values.end());
    dump.push_back({prefix + parameter.name()->str(), plan::DType::F32, shape,
                    std::as_bytes(std::span<const float>(kept.back()))});
  };
  kept.reserve(2 * session.parameters());
  for (int64_t step = 0; step < o.steps; ++step) {
    Schedule schedule = o.schedule;
    schedule.total = o.steps;
    StepResult result = session.step(cut(tokens, targets, weights, step, plan), step, o.seed,
                                     schedule.rate(step), step, o.hyper);
    if (!counted[static_cast<size_t>(step)])
      masked.add(step + 1);
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.gradNorm));
    // Outputs are gone with the next step. Frozen parameters have no gradient.
    for (size_t i = 0; step == 0 && i < session.parameters(); ++i) {
      std::span<const float> gradient = session.executor().output<float>(
          plan::Purpose::Train, plan::OutputKind::Gradient, static_cast<int32_t>(i));
      if (!gradient.empty())
        add("grad.", i, gradient);
    }
  }
  for (size_t i = 0; i < session.parameters(); ++i)
    add("final.", i, session.executor().value(i));
  auto steps = static_cast<int64_t>(losses.size());
  dump.push_back(
      {"loss", plan::DType::F32, {steps}, std::as_bytes(std::span<const float>(losses))});
  dump.push_back(
      {"grad_norm", plan::DType::F32, {steps}, std::as_bytes(std::span<const float>(norms))});
  writeSafetensors(o.dump, std::move(dump));
  masked.finish();
  if (!o.report.empty())
    writeReport(o.report, session, steps, masked.count());
  for (size_t i = 0; i < losses.size(); ++i)
    fmt::print("step {}: loss {:.6f} grad_norm {:.6f}\n", i + 1, losses[i], norms[i]);
}

} // namespace ftlm
