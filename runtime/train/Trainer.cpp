// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Trainer.h"

#include "runtime/train/Checkpoint.h"
#include "runtime/train/Metrics.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

namespace ftlm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

std::atomic<bool> signalFlag = false;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The settings that decide the result of a run; a resumed run must have the same.
Json settingsOf(const TrainOptions &o, Session &session, const std::string &fingerprint,
                int64_t steps) {
  Json json;
  json["model"] = session.plan().model()->str();
  json["batch"] = session.plan().batch();
  json["micro_batch"] = session.plan().micro_batch();
  json["seq_len"] = session.plan().time();
  json["optimizer"] = plan::EnumNameOptimizer(session.plan().optimizer());
  json["data"] = fingerprint;
  json["steps"] = steps;
  json["lr"] = o.schedule.peak;
  json["min_lr"] = o.schedule.minimum;
  json["lr_schedule"] = o.schedule.kind;
  json["warmup"] = o.schedule.warmup;
  json["beta1"] = o.hyper.beta1;
  json["beta2"] = o.hyper.beta2;
  json["eps"] = o.hyper.eps;
  json["weight_decay"] = o.hyper.weightDecay;
  json["clip"] = o.hyper.clip;
  json["seed"] = o.seed;
  return json;
}

/// Refuses a resumed run whose settings differ from those of the checkpoint, unless they were named
/// as intended.
void compareSettings(const Json &before, const Json &now,
                     const std::vector<std::string> &overrides) {
  std::vector<std::string> differences;
  for (auto &[key, value] : now.items()) {
    bool intended = std::find(overrides.begin(), overrides.end(), key) != overrides.end();
    if (!intended && before.value(key, Json()) != value)
      differences.push_back(
          fmt::format("{} was {} and is {}", key, before.value(key, Json()).dump(), value.dump()));
  }
  if (!differences.empty())
    throw badInput("--resume",
                   fmt::format("with other settings:\n  {}", fmt::join(differences, "\n  ")),
                   "give the settings of the first run, or name those that are meant to change "
                   "with --override NAME");
}

DataOptions dataOptions(const TrainOptions &o, const plan::Plan &plan) {
  DataOptions data;
  data.files = o.data;
  data.time = plan.time();
  data.batch = plan.batch();
  data.microBatch = plan.micro_batch();
  data.vocabulary = plan.vocabulary();
  data.seed = o.seed;
  data.workers = o.workers;
  data.prefetch = o.prefetch;
  return data;
}

void writeReport(const fs::path &path, Session &session, int64_t steps) {
  Json json, rank;
  rank["rank"] = 0;
  rank["arena_bytes"] = session.executor().allocatedBytes();
  rank["link_bytes"] = Json::object();
  json["hash"] = session.hash();
  json["isa"] = session.executor().isa();
  json["threads"] = session.executor().threads();
  json["steps"] = steps;
  json["ranks"] = {rank};
  json["peak_rss_bytes"] = Session::peakResidentBytes();
  for (auto &[kind, seconds] : session.executor().profile())
    json["seconds"][kind] = seconds;
  writeFile(path, json.dump(2) + "\n");
}

/// The state of a run between steps.
struct Run {
  int64_t step = 0;
  double bestLoss = INFINITY;
};

} // namespace

// A thread of its own waits for the signals, and all others block them: the matrix products'
// generated code keeps data below the stack pointer, where a handler would write over it.
void catchSignals() {
  static bool once = [] {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::thread([signals] {
      for (int number; sigwait(&signals, &number) == 0;)
        signalFlag = true;
    }).detach();
    return true;
  }();
  (void)once;
}
bool signalled() {
  return signalFlag;
}

Evaluation evaluateCorpus(Session &session, const std::vector<fs::path> &files) {
  DataOptions options;
  options.files = files;
  options.time = session.plan().time();
  options.batch = options.microBatch = session.plan().micro_batch();
  options.vocabulary = session.plan().vocabulary();
  options.shuffle = false;
  options.workers = 0;
  BatchSource source(options);
  Evaluation result;
  for (int64_t i = 0; i < source.stepsPerEpoch() && !signalled(); ++i) {
    StepData data = source.next();
    // Weights of 1: the program's loss is then the sum of the cross-entropies.
    for (float &weight : data.microBatches[0].weights)
      weight = weight > 0 ? 1.0f : 0.0f;
    result.total += session.evaluate(data.microBatches[0]);
    result.tokens += data.tokens;
  }
  return result;
}

int train(const TrainOptions &options) {
  catchSignals();
  Clock::time_point started = Clock::now();
  Session session(options.plan, options.threads);
  const plan::Plan &plan = session.plan();
  if (!session.executor().hasProgram("micro_batch") || !session.executor().hasProgram("update"))
    throw badInput(options.plan.string(), "has no training program");
  BatchSource source(dataOptions(options, plan));
  for (const std::string &note : source.notes())
    fmt::print(stderr, "note: {}\n", note);
  int64_t steps = options.steps;
  if (steps == 0)
    steps = std::max<int64_t>(
        1, std::llround(options.epochs * static_cast<double>(source.stepsPerEpoch())));
  Schedule schedule = options.schedule;
  schedule.total = steps;

  Json settings = settingsOf(options, session, source.fingerprint(), steps);
  Run run;
  bool exists =
      fs::exists(options.out) && (!fs::is_directory(options.out) || !fs::is_empty(options.out));
  std::optional<fs::path> checkpoint;
  if (options.resume)
    checkpoint = newestCheckpoint(options.out);
  else if (exists)
    throw badInput(options.out.string(), "is in use",
                   "name a new folder with --out, or go on with that run: --resume");
  requireFreeBytes(options.out, checkpointBytes(session), "a checkpoint");
  if (checkpoint) {
    Json state = loadCheckpoint(session, *checkpoint);
    compareSettings(state.value("settings", Json::object()), settings, options.overrides);
    run.step = state.value("step", int64_t(0));
    run.bestLoss = state.contains("best_loss") && state["best_loss"].is_number()
                       ? state["best_loss"].get<double>()
                       : INFINITY;
    fmt::print(stderr, "resumed from {}\n", checkpoint->string());
  } else if (!options.init.empty()) {
    LoadReport report = session.load(options.init);
    fmt::print(stderr, "loaded {} tensors, ignored {}\n", report.loaded.size(),
               report.ignored.size());
  } else {
    session.initialize(options.seed);
    fmt::print(stderr, "drew {} parameters afresh\n", session.parameters());
  }
  source.seek(run.step);

  std::error_code error;
  fs::create_directories(options.out, error);
  if (error)
    throw badInput(options.out.string(), "cannot be created: " + error.message());
  writeFile(options.out / "settings.json", settings.dump(2) + "\n");
  fs::path metricsPath = options.metrics.empty() ? options.out / "metrics.jsonl" : options.metrics;
  MetricsFile metrics(metricsPath, run.step);
  fmt::print(stderr,
             "{}: {} steps of {} sequences, {} samples, {} steps an epoch, {} threads, {}\n",
             plan.model()->str(), steps, plan.batch(), source.samples(), source.stepsPerEpoch(),
             session.executor().threads(), session.executor().isa());

  int64_t saved = -1;
  auto save = [&] {
    if (saved == run.step)
      return;
    Json state;
    state["step"] = run.step;
    state["best_loss"] = std::isfinite(run.bestLoss) ? Json(run.bestLoss) : Json();
    state["plan"] = session.hash();
    state["settings"] = settings;
    saveCheckpoint(session, options.out, run.step, state, options.keep);
    saved = run.step;
  };
  auto evaluate = [&] {
    Evaluation result = evaluateCorpus(session, options.valid);
    if (signalled() || result.tokens == 0)
      return;
    metrics.write({{"event", "eval"},
                   {"step", run.step},
                   {"loss", result.loss()},
                   {"perplexity", std::exp(result.loss())},
                   {"tokens", result.tokens}});
    fmt::print(stderr, "step {}: validation loss {:.4f}\n", run.step, result.loss());
    if (result.loss() < run.bestLoss) {
      run.bestLoss = result.loss();
      save();
      markBest(options.out, run.step);
    }
  };

  Progress progress(steps, "step");
  bool late = false;
  while (run.step < steps && !signalled() && !late) {
    Clock::time_point begin = Clock::now();
    StepData data = source.next();
    double rate = schedule.rate(run.step);
    StepResult result = session.step(data, run.step, options.seed, rate, run.step, options.hyper);
    ++run.step;
    double ms = secondsSince(begin) * 1000;
    double speed = static_cast<double>(data.tokens) / ms * 1000;
    metrics.write({{"step", run.step},
                   {"epoch", data.epoch},
                   {"loss", result.loss},
                   {"grad_norm", result.gradNorm},
                   {"lr", rate},
                   {"tokens", data.tokens},
                   {"tokens_per_s", speed},
                   {"step_ms", ms},
                   {"data_wait_ms", data.waitMs},
                   {"skipped", int64_t(0)}});
    progress.update(run.step, fmt::format("loss {:.4f}  {:.0f} tokens/s", result.loss, speed));
    if (!std::isfinite(result.loss) && std::isfinite(result.gradNorm) == false && run.step == 1)
      fmt::print(stderr, "warning: the loss is {} in the first step\n", result.loss);
    late = options.maxTime > 0 && secondsSince(started) > options.maxTime;
    bool last = run.step == steps;
    if (!options.valid.empty() &&
        (last || (options.evalEvery > 0 && run.step % options.evalEvery == 0))) {
      progress.finish();
      evaluate();
    }
    if (options.saveEvery > 0 && run.step % options.saveEvery == 0)
      save();
  }
  progress.finish();
  save();
  if (options.valid.empty())
    markBest(options.out, run.step);
  if (!options.report.empty())
    writeReport(options.report, session, run.step);
  if (run.step < steps) {
    fmt::print(stderr, "stopped after step {} of {}; saved. Run it again with --resume\n", run.step,
               steps);
    return static_cast<int>(ExitCode::Stopped);
  }
  fmt::print(stderr, "done: {}\n", (options.out / "last").string());
  return 0;
}

} // namespace ftlm
