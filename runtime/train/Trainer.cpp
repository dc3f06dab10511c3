// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Trainer.h"

#include "runtime/train/Checkpoint.h"
#include "runtime/train/Generate.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/Report.h"
#include "runtime/train/Settings.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace ftlm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

DataOptions dataOptions(const TrainOptions &o, const plan::Plan &plan) {
  DataOptions data;
  data.files = o.data;
  data.time = plan.time();
  data.batch = plan.batch();
  data.microBatch = plan.micro_batch();
  data.vocabulary = plan.vocabulary();
  data.seed = o.seed;
  data.overlong = o.overlong;
  data.workers = o.workers;
  data.prefetch = o.prefetch;
  return data;
}

/// What of a run goes on when it is resumed, beside the model and the moments.
struct Progressed {
  int64_t step = 0;
  int64_t evaluated = 0; // the step of the last evaluation that came to its end
  int64_t bestStep = -1;
  double bestLoss = INFINITY;
  int64_t maskedSteps = 0;
};

class TrainingRun {
public:
  explicit TrainingRun(const TrainOptions &options)
      : o(options), session(options.plan, options.threads), plan(session.plan()),
        source(dataOptions(options, session.plan())) {
    requirePrograms();
    for (const std::string &note : source.notes())
      fmt::print(stderr, "note: {}\n", note);
    if (!o.valid.empty())
      valid = std::make_unique<EvaluationData>(plan, o.valid, o.overlong);
    steps = o.steps > 0
                ? o.steps
                : std::max<int64_t>(
                      1, std::llround(o.epochs * static_cast<double>(source.stepsPerEpoch())));
    schedule = o.schedule;
    schedule.total = steps;
    if (!schedule.reachesPeak())
      fmt::print(stderr,
                 "warning: the warm-up is longer than the {} updates of the run; the learning rate "
                 "never reaches {}\n",
                 steps, schedule.peak);
    settings = settingsOf(o, plan, source.fingerprint(), steps);
  }

  int run() {
    begin();
    loop();
    save();
    if (!valid)
      markBest(o.out, now.step);
    masked.finish();
    if (!o.report.empty())
      writeReport(o.report, session, now.step, masked.count());
    if (now.step < steps || evaluationDue()) {
      fmt::print(stderr, "stopped after step {} of {}; saved. Run it again with --resume\n",
                 now.step, steps);
      return static_cast<int>(ExitCode::Stopped);
    }
    fmt::print(stderr, "done: {}\n", (o.out / "last").string());
    return 0;
  }

private:
  void requirePrograms() {
    session.require(plan::Purpose::Train);
    if (!o.valid.empty())
      session.require(plan::Purpose::Evaluate);
    if (o.sampleEvery > 0) {
      session.require(plan::Purpose::Generate);
      prompt = promptTokens(plan, "--sample-prompt", o.samplePrompt);
    }
  }

  /// Takes the newest checkpoint, the one to start from, or fresh parameters; opens the folder.
  void begin() {
    bool exists = fs::exists(o.out) && (!fs::is_directory(o.out) || !fs::is_empty(o.out));
    std::optional<fs::path> checkpoint;
    if (o.resume) {
      checkpoint = newestCheckpoint(o.out);
      if (!checkpoint)
        fmt::print(stderr, "{} has no whole checkpoint; the run starts at its beginning\n",
                   o.out.string());
    } else if (exists)
      throw badInput(o.out.string(), "is in use",
                     "name a new folder with --out, or go on with that run: --resume");
    requireRoom();
    if (checkpoint) {
      resume(*checkpoint);
    } else if (!o.init.empty()) {
      LoadReport report = session.load(o.init);
      fmt::print(stderr, "loaded {} tensors\n", report.loaded.size());
      for (const std::string &name : report.ignored)
        fmt::print(stderr, "note: {} is ignored; it is no parameter\n", name);
    } else {
      session.initialize(o.seed);
      fmt::print(stderr, "drew {} parameters afresh\n", session.parameters());
    }
    masked = MaskedSteps(now.maskedSteps);
    source.seek(now.step);
    makeFolders(o.out);
    writeFile(o.out / "settings.json", settings.dump(2) + "\n");
    metrics.emplace(o.metrics.empty() ? o.out / "metrics.jsonl" : o.metrics, now.step);
    fmt::print(stderr,
               "{}: {} steps of {} sequences, {} samples, {} steps an epoch, {} threads, {}\n",
               plan.model()->str(), steps, plan.batch(), source.samples(), source.stepsPerEpoch(),
               session.executor().threads(), session.executor().isa());
  }

  /// Asks for the room of all checkpoints that will lie there at once: those that are kept, the
  /// best and the one that is being written.
  void requireRoom() {
    auto saves = o.saveEvery > 0 ? (steps + o.saveEvery - 1) / o.saveEvery : 1;
    if (valid && o.evalEvery > 0)
      saves += steps / o.evalEvery;
    int64_t most = o.keep > 0 ? std::min<int64_t>(saves, o.keep + 2) : saves;
    most = std::max<int64_t>(1, most - static_cast<int64_t>(countCheckpoints(o.out)));
    requireFreeBytes(o.out, checkpointBytes(session) * static_cast<uint64_t>(most),
                     most == 1 ? "a checkpoint" : fmt::format("keeping {} checkpoints", most));
  }

  void resume(const fs::path &checkpoint) {
    Json state = loadCheckpoint(session, checkpoint);
    compareSettings(state.value("settings", Json::object()), settings, o.overrides);
    now.step = saved = state.value("step", int64_t(0));
    now.evaluated = state.value("evaluated", int64_t(0));
    now.bestStep = state.value("best_step", int64_t(-1));
    now.maskedSteps = state.value("masked_steps", int64_t(0));
    if (state.contains("best_loss") && state["best_loss"].is_number())
      now.bestLoss = state["best_loss"].get<double>();
    // The run may have ended between saving the best and pointing at it.
    if (now.bestStep >= 0 && fs::exists(o.out / fmt::format("step-{}", now.bestStep)))
      markBest(o.out, now.bestStep);
    fmt::print(stderr, "resumed from {}\n", checkpoint.string());
  }

  void loop() {
    Progress progress(steps, "step");
    // An evaluation that a signal cut off comes first.
    if (evaluationDue()) {
      evaluate();
      saved = -1;
      save();
    }
    bool late = false;
    while (now.step < steps && !signalled() && !late) {
      step(progress);
      late = o.maxTime > 0 && secondsSince(started) > o.maxTime;
      if (evaluationDue() || sampleDue())
        progress.finish();
      if (evaluationDue())
        evaluate();
      if (sampleDue())
        sample();
      if (o.saveEvery > 0 && now.step % o.saveEvery == 0)
        save();
    }
    progress.finish();
  }

  void step(Progress &progress) {
    Clock::time_point begun = Clock::now();
    StepData data = source.next();
    double rate = schedule.rate(now.step);
    StepResult result = session.step(data, now.step, o.seed, rate, now.step, o.hyper);
    ++now.step;
    double ms = secondsSince(begun) * 1000;
    double speed = static_cast<double>(data.tokens) / ms * 1000;
    if (data.tokens == 0)
      masked.add(now.step);
    metrics->write({{"step", now.step},
                    {"epoch", data.epoch},
                    {"loss", result.loss},
                    {"grad_norm", result.gradNorm},
                    {"lr", rate},
                    {"tokens", data.tokens},
                    {"tokens_per_s", speed},
                    {"mfu", utilization(ms)},
                    {"step_ms", ms},
                    {"data_wait_ms", data.waitMs},
                    {"skipped", int64_t(0)},
                    {"masked_steps", masked.count()}});
    progress.update(now.step, fmt::format("loss {:.4f}  {:.0f} tokens/s", result.loss, speed));
    if (!warned && !(std::isfinite(result.loss) && std::isfinite(result.gradNorm))) {
      warned = true;
      progress.finish();
      fmt::print(stderr, "warning: step {} has loss {} and gradient norm {}\n", now.step,
                 result.loss, result.gradNorm);
    }
  }

  /// The share of the machine's peak that the matrix products of a step of `ms` reach.
  MetricValue utilization(double ms) const {
    if (o.peakTflops <= 0)
      return "n/a";
    auto flops = static_cast<double>(plan.rank_classes()->Get(0)->summary()->matmul_flops());
    return flops / (ms / 1000) / (o.peakTflops * 1e12);
  }

  bool evaluationDue() const {
    return valid && now.step > 0 && now.evaluated != now.step &&
           (now.step == steps || (o.evalEvery > 0 && now.step % o.evalEvery == 0));
  }

  void evaluate() {
    Evaluation result = valid->evaluate(session);
    if (!result.whole)
      return;
    now.evaluated = now.step;
    metrics->write({{"event", "eval"},
                    {"step", now.step},
                    {"loss", result.loss()},
                    {"perplexity", std::exp(result.loss())},
                    {"tokens", result.tokens}});
    fmt::print(stderr, "step {}: validation loss {:.4f}\n", now.step, result.loss());
    if (result.loss() < now.bestLoss) {
      now.bestLoss = result.loss();
      now.bestStep = now.step;
      saved = -1;
      save();
      markBest(o.out, now.step);
    }
  }

  bool sampleDue() const { return o.sampleEvery > 0 && now.step % o.sampleEvery == 0; }

  void sample() {
    std::string text = o.samplePrompt;
    Sampling sampling;
    sampling.seed = o.seed + static_cast<uint64_t>(now.step);
    generateTokens(session, prompt, o.sampleTokens, sampling,
                   [&](int32_t id) { text += tokenText(id); });
    metrics->write({{"event", "sample"}, {"step", now.step}, {"text", text}});
    // As a JSON text: a model that has not learnt much writes bytes that no terminal should get.
    fmt::print("step {}: {}\n", now.step,
               Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
    std::fflush(stdout);
  }

  void save() {
    if (saved == now.step)
      return;
    Json state;
    state["step"] = now.step;
    state["evaluated"] = now.evaluated;
    state["best_step"] = now.bestStep;
    state["best_loss"] = std::isfinite(now.bestLoss) ? Json(now.bestLoss) : Json();
    state["masked_steps"] = masked.count();
    state["plan"] = session.hash();
    state["settings"] = settings;
    saveCheckpoint(session, o.out, now.step, state, o.keep);
    saved = now.step;
  }

  const TrainOptions &o;
  Clock::time_point started = Clock::now();
  Session session;
  const plan::Plan &plan;
  BatchSource source;
  std::unique_ptr<EvaluationData> valid;
  std::vector<int32_t> prompt;
  int64_t steps = 0, saved = -1;
  Schedule schedule;
  Json settings;
  Progressed now;
  MaskedSteps masked;
  std::optional<MetricsFile> metrics;
  bool warned = false;
};

} // namespace

int train(const TrainOptions &options) {
  catchSignals();
  return TrainingRun(options).run();
}

} // namespace ftlm
