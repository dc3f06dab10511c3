// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/Batches.h"

#include "runtime/base/Error.h"
#include "runtime/device/Philox.h"

#include <chrono>
#include <condition_variable>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace ftlm {

struct BatchSource::State {
  explicit State(DataOptions given) : options(std::move(given)) {
    stream = readTokens(options.files, options.vocabulary);
    contents = stream.hash();
    applyOverlong();
    auto have = static_cast<int64_t>(stream.tokens.size());
    if (have < options.time + 1 && (have > 0 || stream.examples.empty()))
      throw badInput(options.files.front().string(),
                     fmt::format("has {} tokens in all; one window of {} positions needs {}", have,
                                 options.time, options.time + 1),
                     "give more text, or compile the plan with a smaller --seq-len");
    text = {have, options.time};
    samples = text.count() + static_cast<int64_t>(stream.examples.size());
    int64_t targets = 0;
    for (int64_t i = 0; i < samples && targets == 0; ++i)
      targets += sampleOf(i).counted();
    if (targets == 0)
      throw badInput(options.files.front().string(),
                     "has no target: all its tokens belong to prompts",
                     "give lines with a \"completion\" that is not empty");
    stepsPerEpoch = (samples + options.batch - 1) / options.batch;
    for (int i = 0; i < options.workers; ++i)
      workers.emplace_back([this] { work(); });
  }

  /// Refuses, cuts or drops the lines that are longer than a window.
  void applyOverlong() {
    int64_t most = options.time + 1, count = 0;
    std::vector<Example> kept;
    for (Example example : stream.examples) {
      if (example.tokens > most) {
        if (options.overlong == Overlong::Error)
          throw badInput(fmt::format("{}:{}", stream.files[example.file], example.line),
                         fmt::format("has {} tokens; a window of {} positions holds {}",
                                     example.tokens, options.time, most),
                         "shorten it, choose --overlong cut or drop, or compile the plan with a "
                         "larger --seq-len");
        ++count;
        if (options.overlong == Overlong::Drop)
          continue;
        example.tokens = most;
      }
      kept.push_back(example);
    }
    if (count > 0)
      stream.notes.push_back(fmt::format("{} of {} lines have more than {} tokens and were {}",
                                         count, stream.examples.size(), most,
                                         options.overlong == Overlong::Cut ? "cut" : "dropped"));
    stream.examples = std::move(kept);
  }

  /// A sample's inputs tokens[0 .. targets - 1] and targets tokens[1 .. targets], of which the
  /// first `masked` have weight 0.
  struct Sample {
    const int32_t *tokens;
    int64_t targets, masked;
    int64_t counted() const { return targets - masked; }
  };
  Sample sampleOf(int64_t number) const {
    if (number < text.count())
      return {stream.tokens.data() + text.begin(number), text.targets(number), 0};
    const Example &example = stream.examples[static_cast<size_t>(number - text.count())];
    int64_t targets = example.tokens - 1;
    return {stream.exampleTokens.data() + example.begin, targets,
            std::clamp<int64_t>(example.prompt - 1, 0, targets)};
  }

  ~State() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (std::thread &worker : workers)
      worker.join();
  }

  /// The order of the samples in an epoch: Fisher-Yates with Philox words keyed by the seed,
  /// counted by epoch.
  std::shared_ptr<const std::vector<int64_t>> orderOf(int64_t epoch) {
    std::lock_guard lock(orderMutex);
    auto &order = orders[epoch];
    if (!order) {
      std::vector<int64_t> list(static_cast<size_t>(samples));
      std::iota(list.begin(), list.end(), int64_t(0));
      for (int64_t i = samples - 1; options.shuffle && i > 0; --i) {
        auto words = philox4x32(
            {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), static_cast<uint32_t>(epoch),
             0xDA7Au},
            {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)});
        uint64_t word = uint64_t(words[0]) << 32 | words[1];
        auto j = static_cast<int64_t>(word % static_cast<uint64_t>(i + 1));
        std::swap(list[static_cast<size_t>(i)], list[static_cast<size_t>(j)]);
      }
      order = std::make_shared<const std::vector<int64_t>>(std::move(list));
      while (orders.size() > 3)
        orders.erase(orders.begin()->first == epoch ? std::prev(orders.end()) : orders.begin());
    }
    return orders[epoch];
  }

  StepData build(int64_t step) {
    StepData data;
    data.epoch = step / stepsPerEpoch;
    auto order = orderOf(data.epoch);
    int64_t first = step % stepsPerEpoch * options.batch, time = options.time,
            mb = options.microBatch;
    int64_t real = std::min(options.batch, samples - first);
    auto sampleAt = [&](int64_t example) {
      return sampleOf((*order)[static_cast<size_t>(first + example)]);
    };
    for (int64_t i = 0; i < real; ++i)
      data.tokens += sampleAt(i).counted();
    float weight =
        data.tokens > 0 ? static_cast<float>(1.0 / static_cast<double>(data.tokens)) : 0.0f;
    int64_t microBatches = (options.batch + mb - 1) / mb;
    for (int64_t g = 0; g < microBatches; ++g) {
      MicroBatch micro;
      auto size = static_cast<size_t>(mb * time);
      micro.tokens.assign(size, 0);
      micro.targets.assign(size, 0);
      micro.weights.assign(size, 0.0f);
      for (int64_t row = 0; row < mb; ++row) {
        int64_t example = g * mb + row;
        micro.examples.push_back(static_cast<int32_t>(example));
        if (example >= real)
          continue;
        Sample sample = sampleAt(example);
        std::copy_n(sample.tokens, sample.targets, micro.tokens.begin() + row * time);
        std::copy_n(sample.tokens + 1, sample.targets, micro.targets.begin() + row * time);
        std::fill_n(micro.weights.begin() + row * time + sample.masked, sample.counted(), weight);
      }
      data.microBatches.push_back(std::move(micro));
    }
    return data;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] {
        return stopping || nextToBuild < nextToGive + std::max(1, options.prefetch);
      });
      if (stopping)
        return;
      int64_t step = nextToBuild++, round = seeks;
      lock.unlock();
      StepData data;
      std::exception_ptr problem;
      try {
        data = build(step);
      } catch (...) {
        problem = std::current_exception();
      }
      lock.lock();
      if (problem)
        error = problem;
      else if (round == seeks)
        built.emplace(step, std::move(data));
      changed.notify_all();
    }
  }

  StepData next() {
    auto start = std::chrono::steady_clock::now();
    StepData data;
    if (workers.empty()) {
      data = build(nextToGive++);
    } else {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return error || built.contains(nextToGive); });
      if (error)
        std::rethrow_exception(error);
      auto found = built.find(nextToGive++);
      data = std::move(found->second);
      built.erase(found);
    }
    changed.notify_all();
    data.waitMs =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return data;
  }

  void seek(int64_t step) {
    std::lock_guard lock(mutex);
    built.clear();
    ++seeks;
    nextToBuild = nextToGive = step;
    changed.notify_all();
  }

  DataOptions options;
  TokenStream stream;
  std::string contents; // the hash of the stream as it was read
  Windows text{};
  int64_t samples = 0, stepsPerEpoch = 0;
  std::mutex mutex, orderMutex;
  std::condition_variable changed;
  std::map<int64_t, StepData> built;
  std::map<int64_t, std::shared_ptr<const std::vector<int64_t>>> orders;
  int64_t nextToBuild = 0, nextToGive = 0, seeks = 0;
  bool stopping = false;
  std::exception_ptr error;
  std::vector<std::thread> workers;
};

BatchSource::BatchSource(DataOptions options)
    : state(std::make_unique<State>(std::move(options))) {}
BatchSource::~BatchSource() = default;
int64_t BatchSource::samples() const {
  return state->samples;
}
int64_t BatchSource::stepsPerEpoch() const {
  return state->stepsPerEpoch;
}
StepData BatchSource::next() {
  return state->next();
}
void BatchSource::seek(int64_t step) {
  state->seek(step);
}
const std::vector<std::string> &BatchSource::notes() const {
  return state->stream.notes;
}

const std::string &BatchSource::fingerprint() const {
  return state->contents;
}

} // namespace ftlm
