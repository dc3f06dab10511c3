// SPDX-License-Identifier: Apache-2.0
// The options of `train` and `step`, which share the update rule's.
#include "runtime/train/Step.h"
#include "runtime/train/Trainer.h"
#include "tools/ftlm-run/Commands.h"

namespace ftlm {

static void addUpdateOptions(CLI::App &app, Schedule &schedule, Hyper &hyper) {
  app.add_option("--lr", schedule.peak, "peak learning rate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--min-lr", schedule.minimum, "learning rate that the schedule does not go below")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--lr-schedule", schedule.kind, "linear, cosine or constant, after the warm-up")
      ->check(CLI::IsMember({"linear", "cosine", "constant"}))
      ->capture_default_str();
  app.add_option("--warmup", schedule.warmup,
                 "warm-up: a fraction of all steps (below 1) or a number of steps")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--beta1", hyper.beta1, "decay of the first moment")
      ->check(CLI::Range(0.0, 0.9999999))
      ->capture_default_str();
  app.add_option("--beta2", hyper.beta2, "decay of the second moment")
      ->check(CLI::Range(0.0, 0.9999999))
      ->capture_default_str();
  app.add_option("--eps", hyper.eps, "added to the root of the second moment")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--weight-decay", hyper.weightDecay, "decay of tensors of rank above 1")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--clip", hyper.clip, "largest norm of all gradients; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

static void addThreads(CLI::App &app, int &threads) {
  app.add_option("--threads", threads, "threads; 0: those of the machine, at most the plan's")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

Command addTrain(CLI::App &app) {
  auto o = std::make_shared<TrainOptions>();
  CLI::App &train = *app.add_subcommand("train", "trains a model");
  train.add_option("PLAN", o->plan, "a plan of ftlmc")->required();
  train
      .add_option(
          "--data", o->data,
          "text (as bytes), .jsonl with \"text\" or with \"prompt\" and \"completion\" (only "
          "completions are learnt), or files of token ids (.bin of llm.c or nanoGPT, .npy); "
          "patterns are expanded")
      ->required();
  train.add_option("--out", o->out, "folder of the run: checkpoints, metrics, settings")
      ->required();
  train.add_option("--init", o->init, "checkpoint to start from; without it parameters are drawn");
  train.add_option("--valid", o->valid, "data to evaluate on");
  addOverlong(train, o->overlong);
  train.add_option("--steps", o->steps, "steps to train for; 0: by --epochs")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train.add_option("--epochs", o->epochs, "passes over the data")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  addUpdateOptions(train, o->schedule, o->hyper);
  train.add_option("--seed", o->seed, "seed of the order, the dropout and the fresh parameters")
      ->capture_default_str();
  train.add_option("--eval-every", o->evalEvery, "steps between evaluations; 0: at the end")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train.add_option("--save-every", o->saveEvery, "steps between checkpoints; 0: at the end")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train.add_option("--keep", o->keep, "checkpoints to keep, the best beside them; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train
      .add_option("--sample-every", o->sampleEvery,
                  "steps between samples of text that the model writes; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train.add_option("--sample-prompt", o->samplePrompt, "text that the samples go on from");
  train.add_option("--sample-tokens", o->sampleTokens, "tokens of a sample")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  train.add_flag("--resume", o->resume, "go on with the run in --out");
  train.add_option("--override", o->overrides,
                   "settings that a resumed run may change, by their names in settings.json");
  train.add_option("--metrics", o->metrics, "JSON lines file (default: metrics.jsonl in --out)");
  train.add_option("--report", o->report, "write what was allocated and counted as JSON");
  train.add_option("--max-time", o->maxTime, "seconds after which to save and stop; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train
      .add_option("--peak-tflops", o->peakTflops,
                  "peak of the machine, for `mfu` in the metrics; 0: not known, `mfu` is n/a")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  addThreads(train, o->threads);
  train.add_option("--workers", o->workers, "threads that prepare data; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  train.add_option("--prefetch", o->prefetch, "steps prepared ahead")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return [o] { return ftlm::train(*o); };
}

Command addStep(CLI::App &app) {
  auto o = std::make_shared<StepOptions>();
  CLI::App &step = *app.add_subcommand(
      "step", "runs training steps on given tensors and dumps the result, for comparing");
  step.add_option("PLAN", o->plan, "a plan of ftlmc")->required();
  step.add_option("--init", o->init, "checkpoint to start from; further files add tensors")
      ->required();
  step.add_option(
          "--batch", o->batch,
          "safetensors with tokens, targets (int32), weights (float32): [steps, batch, time]")
      ->required();
  step.add_option("--dump", o->dump, "safetensors to write: loss, grad_norm, grad.NAME, final.NAME")
      ->required();
  step.add_option("--steps", o->steps, "steps")->check(CLI::PositiveNumber)->capture_default_str();
  addUpdateOptions(step, o->schedule, o->hyper);
  step.add_option("--seed", o->seed, "seed of the dropout")->capture_default_str();
  step.add_option("--report", o->report, "write what was allocated and counted as JSON");
  addThreads(step, o->threads);
  return [o] {
    runSteps(*o);
    return 0;
  };
}

} // namespace ftlm
