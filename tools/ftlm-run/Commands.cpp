// SPDX-License-Identifier: Apache-2.0
#include "tools/ftlm-run/Commands.h"

#include "runtime/train/Evaluate.h"
#include "runtime/train/Generate.h"
#include "schema/PlanReport.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>

namespace ftlm {

namespace fs = std::filesystem;

void addOverlong(CLI::App &app, Overlong &overlong) {
  const std::map<std::string, Overlong> names = {
      {"error", Overlong::Error}, {"cut", Overlong::Cut}, {"drop", Overlong::Drop}};
  app.add_option("--overlong", overlong,
                 "what to do with a prompt and completion longer than the plan's sequences: error, "
                 "cut or drop")
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->default_str("error");
}

/// Loads parameters and names the tensors that were there and no parameters.
static void load(Session &session, const std::vector<fs::path> &sources) {
  for (const std::string &name : session.load(sources).ignored)
    fmt::print(stderr, "note: {} is ignored; it is no parameter\n", name);
}

Command addEvaluate(CLI::App &app) {
  auto o = std::make_shared<EvaluateOptions>();
  auto json = std::make_shared<bool>(false);
  CLI::App &evaluate =
      *app.add_subcommand("evaluate", "prints loss and perplexity of a checkpoint on data");
  evaluate.add_option("PLAN", o->plan, "a plan of ftlmc")->required();
  evaluate.add_option("--init", o->init, "checkpoint")->required();
  evaluate.add_option("--data", o->data, "data, as for train")->required();
  addOverlong(evaluate, o->overlong);
  evaluate.add_option("--threads", o->threads, "threads; 0: those of the machine")
      ->check(CLI::NonNegativeNumber);
  evaluate.add_flag("--json", *json, "print JSON");
  return [o, json] {
    catchSignals();
    Session session(o->plan, o->threads);
    load(session, o->init);
    EvaluationData data(session.plan(), o->data, o->overlong);
    for (const std::string &note : data.notes())
      fmt::print(stderr, "note: {}\n", note);
    Evaluation result = data.evaluate(session);
    if (!result.whole)
      return static_cast<int>(ExitCode::Stopped);
    double loss = result.loss();
    nlohmann::ordered_json facts = {{"loss", loss},
                                    {"perplexity", std::exp(loss)},
                                    {"bits_per_token", loss / std::log(2.0)},
                                    {"tokens", result.tokens}};
    if (*json)
      fmt::print("{}\n", facts.dump());
    else
      for (auto &[key, value] : facts.items())
        fmt::print("{:16} {}\n", key, value.dump());
    return 0;
  };
}

Command addGenerate(CLI::App &app) {
  struct Options {
    fs::path plan;
    std::vector<fs::path> init;
    std::string prompt;
    int64_t maxTokens = 100;
    int threads = 0;
    Sampling sampling;
  };
  auto o = std::make_shared<Options>();
  CLI::App &generate = *app.add_subcommand("generate", "writes text that goes on from a prompt");
  generate.add_option("PLAN", o->plan, "a plan of ftlmc")->required();
  generate.add_option("--init", o->init, "checkpoint")->required();
  generate.add_option("--prompt", o->prompt, "text to go on from")->required();
  generate.add_option("--max-tokens", o->maxTokens, "tokens to write")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  generate.add_option("--temperature", o->sampling.temperature, "0: always the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  generate.add_option("--top-k", o->sampling.topK, "draw from the k likeliest; 0: from all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  generate.add_option("--top-p", o->sampling.topP, "draw from the likeliest with this share")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  generate.add_option("--seed", o->sampling.seed, "seed of the draws")->capture_default_str();
  generate.add_option("--threads", o->threads, "threads; 0: those of the machine")
      ->check(CLI::NonNegativeNumber);
  return [o] {
    Session session(o->plan, o->threads);
    std::vector<int32_t> prompt = promptTokens(session.plan(), "--prompt", o->prompt);
    load(session, o->init);
    std::cout << o->prompt << std::flush;
    generateTokens(session, prompt, o->maxTokens, o->sampling,
                   [](int32_t id) { std::cout << tokenText(id) << std::flush; });
    std::cout << "\n";
    return 0;
  };
}

static void inspectCheckpoint(const fs::path &path, bool json) {
  fs::path file = fs::is_directory(path) ? path / "model.safetensors" : path;
  MappedFile mapped(file);
  SafetensorsFile tensors = SafetensorsFile::fromBytes(mapped.bytes(), file.string());
  nlohmann::ordered_json facts;
  facts["file"] = file.string();
  facts["xxh3"] = hashOf(mapped.bytes());
  uint64_t elements = 0;
  for (const TensorView &tensor : tensors.tensors()) {
    uint64_t count = 1;
    for (int64_t extent : tensor.shape)
      count *= static_cast<uint64_t>(extent);
    elements += count;
    facts["tensors"][tensor.name] = {{"dtype", tensor.dtypeName()}, {"shape", tensor.shape}};
  }
  facts["elements"] = elements;
  if (json) {
    fmt::print("{}\n", facts.dump(2));
    return;
  }
  fmt::print("{}: {} tensors, {} numbers, hash {}\n", file.string(), tensors.tensors().size(),
             elements, facts["xxh3"].get<std::string>());
  for (const TensorView &tensor : tensors.tensors())
    fmt::print("  {:5} [{}] {}\n", tensor.dtypeName(), fmt::join(tensor.shape, ", "), tensor.name);
}

Command addInspect(CLI::App &app) {
  auto path = std::make_shared<fs::path>();
  auto json = std::make_shared<bool>(false);
  CLI::App &inspect = *app.add_subcommand("inspect", "prints what a plan or a checkpoint holds");
  inspect
      .add_option("PLAN-OR-CHECKPOINT", *path,
                  "a plan, a safetensors file or a folder with model.safetensors")
      ->required();
  inspect.add_flag("--json", *json, "print JSON");
  return [path, json] {
    if (fs::is_directory(*path) || path->extension() == ".safetensors") {
      inspectCheckpoint(*path, *json);
      return 0;
    }
    LoadedPlan loaded = LoadedPlan::load(*path);
    plan::PlanT plan;
    loaded.get().UnPackTo(&plan);
    if (*json)
      fmt::print("{}\n", planFacts(plan, loaded.hash()).dump(2));
    else
      fmt::print("{}", planText(plan, loaded.hash()));
    return 0;
  };
}

Command addTokenize(CLI::App &app) {
  auto files = std::make_shared<std::vector<fs::path>>();
  auto tokenizer = std::make_shared<std::string>("bytes");
  CLI::App &tokenize =
      *app.add_subcommand("tokenize", "prints the ids of text files: a JSON array a document");
  tokenize.add_option("FILE", *files, "text, or .jsonl with a document a line")->required();
  tokenize.add_option("--tokenizer", *tokenizer, "bytes")
      ->check(CLI::IsMember({"bytes"}))
      ->capture_default_str();
  return [files] {
    for (const fs::path &file : *files)
      forEachDocument(file, [](const Document &document) {
        std::string_view text = document.text;
        std::string line = "[";
        for (size_t i = 0; i < text.size(); ++i)
          line += fmt::format("{}{}", i ? ", " : "", static_cast<unsigned char>(text[i]));
        std::cout << line << "]\n";
      });
    return 0;
  };
}

Command addDoctor(CLI::App &app) {
  app.add_subcommand("doctor", "tells which backends this machine can use, and why not");
  return [] {
    fmt::print("ftlm-run {}\n", FTLM_VERSION);
    fmt::print("processor: {} hardware threads; kernels for", std::thread::hardware_concurrency());
    std::vector<std::string> sets;
    for (const char *isa : {"x86-64-v3", "x86-64-v4"})
      if (processorHas(isa))
        sets.push_back(isa);
    fmt::print(" {}\n", sets.empty() ? "none of x86-64-v3, x86-64-v4"
                                     : fmt::format("{}", fmt::join(sets, ", ")));
    fmt::print("backend cpu: {}\n",
               sets.empty() ? "not usable: the processor has no AVX2" : "usable");
    return sets.empty() ? static_cast<int>(ExitCode::Unsupported) : 0;
  };
}

} // namespace ftlm
