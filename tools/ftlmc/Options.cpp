// SPDX-License-Identifier: Apache-2.0
#include "tools/ftlmc/Options.h"

#include "runtime/base/Error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <vector>

namespace ftlm {
namespace {

/// An option with a fixed list of words, of which some are for other versions of ftlm or other
/// machines.
struct Choice {
  const char *name;
  std::vector<std::string> works;
  std::vector<std::string> planned; // beginnings of values that mean something, but cannot be done
  const char *help;
  std::string value = ""; // what the user gave
};

std::vector<Choice> choices() {
  return {
      {"--objective",
       {"lm"},
       {"multiple-choice", "classification:", "similarity", "entailment"},
       "the heads and the loss"},
      {"--optimizer", {"adamw", "adam-gpt1", "sgd"}, {}, "the update rule"},
      {"--precision", {"fp32"}, {"bf16", "fp16"}, "what the step computes in"},
      {"--grid", {"dp=1"}, {"dp=", "tp=", "pp="}, "the device grid"},
      {"--target", {"cpu"}, {"cuda"}, "the kind of device"},
      {"--emit", {"lm", "lm-grad", "dist", "plan"}, {}, "print that form and write nothing"},
  };
}

/// Checks the value of a choice; the exit code when it is refused.
std::optional<int> refuse(const Choice &choice) {
  if (choice.value.empty() || std::ranges::find(choice.works, choice.value) != choice.works.end())
    return std::nullopt;
  bool planned = std::ranges::any_of(
      choice.planned, [&](const std::string &word) { return choice.value.starts_with(word); });
  fmt::print(stderr, "ftlmc: error: {} {} {}; {} {}\n", choice.name, choice.value,
             planned ? "is not supported" : "is unknown", planned ? "what works is" : "expected",
             fmt::join(choice.works, ", "));
  return static_cast<int>(planned ? ExitCode::Unsupported : ExitCode::BadInput);
}

} // namespace

std::optional<int> parseCommandLine(int argc, const char *const *argv, CompilerOptions &options) {
  CLI::App app("Compiles a language model to a plan that ftlm-run carries out.", "ftlmc");
  app.set_version_flag("--version", std::string("ftlmc ") + FTLM_VERSION);
  app.get_formatter()->column_width(34);
  app.footer("Examples:\n"
             "  ftlmc gpt1 --batch 4 --micro-batch 4 --seq-len 512 -o gpt1.ftlm\n"
             "  ftlmc ./gpt2-folder/ --micro-batch 2 --explain\n"
             "  ftlmc small --emit lm-grad\n"
             "Ends with 0 (done), 2 (wrong use or bad input), 3 (cannot be done), 4 (failed).");

  app.add_option(
         "MODEL", options.model,
         "the name of a description in models/, a description *.toml, a folder with a Hugging Face "
         "config.json, or a module *.mlir in the lm dialect")
      ->required();
  app.add_option("-o,--output", options.output, "the plan file to write")->type_name("PLAN.ftlm");
  auto count = [&](const char *name, int64_t &value, const char *help) {
    app.add_option(name, value, help)
        ->type_name("N")
        ->check(CLI::Range(int64_t(1), (int64_t(1) << 31) - 1));
  };
  count("--batch", options.batch, "sequences a step (default: the model's)");
  count("--micro-batch", options.microBatch, "sequences computed at a time (default: the model's)");
  count("--seq-len", options.time, "positions of a sequence (default: the model's)");
  count("--threads", options.threads,
        "at most so many threads carry the plan out (default: all processors)");
  app.add_option("--dropout", options.dropout, "overrides all dropout rates of the model")
      ->type_name("P");
  std::vector<Choice> all = choices();
  for (Choice &choice : all)
    app.add_option(choice.name, choice.value,
                   fmt::format("{}: {}", choice.help, fmt::join(choice.works, ", ")))
        ->type_name("WORD");
  app.add_flag("--explain", options.explain,
               "print what was decided, for people; writes nothing without -o");
  CLI::Option *json = app.add_flag("--json", options.json, "print it as JSON");
  json->needs("--explain");
  app.add_flag("--mlir-pass-statistics", options.statistics, "print the statistics of each pass");
  app.add_flag("--mlir-timing", options.timing, "print the time of each pass");
  app.add_flag("--mlir-print-ir-after-all", options.printAfterAll,
               "print the module after each pass");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return 0;
    }
    fmt::print(stderr, "ftlmc: error: {}\nftlmc --help lists the options.\n", error.what());
    return static_cast<int>(ExitCode::BadInput);
  }

  for (const Choice &choice : all)
    if (std::optional<int> code = refuse(choice))
      return code;
  auto value = [&](std::string_view name) {
    return std::ranges::find(all, name, [](const Choice &choice) { return choice.name; })->value;
  };
  options.emit = value("--emit");
  options.optimizer = value("--optimizer").empty() ? "adamw" : value("--optimizer");
  std::ranges::replace(options.optimizer, '-', '_');

  auto mistake = [](const char *text) {
    fmt::print(stderr, "ftlmc: error: {}\n", text);
    return static_cast<int>(ExitCode::BadInput);
  };
  if (!options.emit.empty() && (!options.output.empty() || options.explain))
    return mistake("--emit prints a form and writes nothing; leave out -o and --explain");
  if (options.emit.empty() && options.output.empty() && !options.explain)
    return mistake("nothing to do: give -o PLAN.ftlm, --explain or --emit FORM");
  return std::nullopt;
}

} // namespace ftlm
