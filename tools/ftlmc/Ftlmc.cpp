// SPDX-License-Identifier: Apache-2.0
// ftlmc: compiles a model description to a plan.
#include "compiler/Pipeline.h"
#include "compiler/import/BuildModule.h"
#include "compiler/write/WritePlan.h"
#include "schema/PlanReport.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <thread>
#include <xxhash.h>

using namespace mlir;
using namespace ftlm;

namespace {

constexpr int done = 0, badInput = 2, failed_ = 4;

struct Options {
  std::string model, output, emit, optimizer = "adamw", precision = "fp32", objective = "lm", target = "cpu";
  ImportOptions import;
  double dropout = -1;
  bool explain = false, json = false, statistics = false;
};

int fail(const std::string &what, int code = badInput) {
  llvm::errs() << "ftlmc: error: " << what << "\n";
  return code;
}

/// The folder of the models that come with ftlm.
std::string modelsFolder() {
  if (auto given = llvm::sys::Process::GetEnv("FTLM_MODELS_DIR"))
    return *given;
  llvm::SmallString<128> installed(llvm::sys::fs::getMainExecutable("ftlmc", reinterpret_cast<void *>(&modelsFolder)));
  llvm::sys::path::remove_filename(installed);
  llvm::sys::path::append(installed, "..", "share", "ftlm", "models");
  return llvm::sys::fs::is_directory(installed) ? installed.str().str() : FTLM_SOURCE_MODELS;
}

llvm::Expected<ModelDescription> readModel(const std::string &model) {
  if (llvm::sys::fs::is_directory(model))
    return readHuggingFaceFolder(model);
  if (llvm::sys::fs::exists(model))
    return readTomlDescription(model);
  llvm::SmallString<128> known(modelsFolder());
  llvm::sys::path::append(known, model + ".toml");
  if (llvm::sys::fs::exists(known))
    return readTomlDescription(known.str().str());
  std::vector<std::string> names;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(modelsFolder(), error), end; it != end && !error; it.increment(error))
    if (llvm::sys::path::extension(it->path()) == ".toml")
      names.push_back(llvm::sys::path::stem(it->path()).str());
  std::sort(names.begin(), names.end());
  return llvm::createStringError(fmt::format(
      "{}: no such file or folder, and no model of that name; models are {}", model, fmt::join(names, ", ")));
}

llvm::Expected<OwningOpRef<ModuleOp>> import(MLIRContext &context, const Options &options) {
  if (llvm::StringRef(options.model).ends_with(".mlir")) {
    OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(options.model, &context);
    if (!module)
      return llvm::createStringError(options.model + ": is not a module of the lm dialect");
    return module;
  }
  llvm::Expected<ModelDescription> model = readModel(options.model);
  if (!model)
    return model.takeError();
  return buildModule(context, *model, options.import);
}

int compile(Options &options) {
  if (options.output.empty() && options.emit.empty() && !options.explain)
    return fail("nothing to do: name the plan with -o PLAN.ftlm, or ask for --emit or --explain");
  if (options.dropout >= 0)
    options.import.dropout = options.dropout;
  if (options.optimizer == "adam-gpt1")
    options.optimizer = "adam_gpt1";
  options.import.optimizer = options.optimizer;

  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  llvm::Expected<OwningOpRef<ModuleOp>> module = import(context, options);
  if (!module)
    return fail(llvm::toString(module.takeError()));

  Stage stage = options.emit == "lm" ? Stage::Lm : options.emit == "lm-grad" ? Stage::LmGrad : Stage::Plan;
  PassManager passes(&context);
  if (options.statistics)
    passes.enableStatistics();
  addPasses(passes, stage, options.optimizer);
  if (failed(passes.run(**module)))
    return fail("compiling " + options.model + " failed", failed_);
  if (!options.emit.empty()) {
    // The kernels are no part of the plan's text: they are compiled from another level.
    if (stage == Stage::Plan)
      if (auto kernels = (*module)->lookupSymbol<ModuleOp>("kernels"))
        kernels.erase();
    (*module)->print(llvm::outs());
    llvm::outs() << "\n";
    return done;
  }

  auto kernels = (*module)->lookupSymbol<ModuleOp>("kernels");
  auto objects = codegen::compileKernels(kernels);
  if (failed(objects))
    return fail("compiling the kernels failed", failed_);
  auto plan = buildPlan(**module, std::move(*objects));
  if (failed(plan))
    return fail("writing the plan failed", failed_);
  if (options.explain) {
    std::vector<uint8_t> bytes = planFileBytes(*plan);
    uint64_t hash[2];
    std::memcpy(hash, bytes.data() + 24, sizeof(hash));
    std::string name = fmt::format("{:016x}{:016x}", hash[1], hash[0]);
    if (options.json)
      llvm::outs() << planFacts(*plan, name).dump(2) << "\n";
    else
      llvm::outs() << planText(*plan, name);
  }
  if (!options.output.empty())
    if (llvm::Error error = writePlanFile(*plan, options.output))
      return fail(options.output + ": " + llvm::toString(std::move(error)));
  return done;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("ftlmc: compiles a model to a plan that ftlm-run carries out");
  Options options;
  options.import.threads = std::max(1u, std::thread::hardware_concurrency());
  app.set_version_flag("--version", "ftlmc " FTLM_VERSION);
  app.add_option("MODEL", options.model,
                 "a description (*.toml, or the name of one in models/), a folder with a Hugging Face config.json, or "
                 "a *.mlir file in the lm dialect")
      ->required();
  app.add_option("-o", options.output, "the plan to write");
  app.add_option("--objective", options.objective, "heads and loss: lm")->check(CLI::IsMember({"lm"}));
  app.add_option("--batch", options.import.batch, "sequences a step (default: the model's)")->check(CLI::PositiveNumber);
  app.add_option("--micro-batch", options.import.microBatch, "sequences computed at a time")->check(CLI::PositiveNumber);
  app.add_option("--seq-len", options.import.time, "positions of a sequence (default: the model's)")
      ->check(CLI::PositiveNumber);
  app.add_option("--precision", options.precision, "precision of the computation: fp32")->check(CLI::IsMember({"fp32"}));
  app.add_option("--optimizer", options.optimizer, "update rule: adamw, adam-gpt1 or sgd")
      ->check(CLI::IsMember({"adamw", "adam-gpt1", "sgd"}))
      ->capture_default_str();
  app.add_option("--dropout", options.dropout, "overrides all dropout rates of the model")->check(CLI::Range(0.0, 0.999999));
  app.add_option("--threads", options.import.threads, "threads that a run may use at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--target", options.target, "where the plan runs: cpu (AVX2 and AVX-512 in one plan)")
      ->check(CLI::IsMember({"cpu"}));
  app.add_option("--emit", options.emit, "print this form instead of writing the plan: lm, lm-grad or plan")
      ->check(CLI::IsMember({"lm", "lm-grad", "plan"}));
  app.add_flag("--explain", options.explain, "print what was decided: memory by class, work, largest buffers");
  app.add_flag("--json", options.json, "with --explain: as JSON")->needs("--explain");
  app.add_flag("--mlir-pass-statistics", options.statistics, "print the statistics of every pass");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? done : badInput;
  }
  return compile(options);
}
