// SPDX-License-Identifier: Apache-2.0
// ftlmc: compiles a model to a plan. Reads the command line, imports the model, runs the passes,
// and prints or writes what came out.
#include "compiler/Pipeline.h"
#include "compiler/import/ImportModel.h"
#include "compiler/write/WritePlan.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/base/Error.h"
#include "schema/PlanFile.h"
#include "schema/PlanReport.h"
#include "tools/ftlmc/Options.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <thread>

using namespace ftlm;

namespace {

int fail(ExitCode code, const llvm::Twine &text) {
  llvm::errs() << "ftlmc: error: " << text << '\n';
  return static_cast<int>(code);
}

/// What --explain prints.
std::string explain(const plan::PlanT &plan, bool json) {
  std::vector<uint8_t> bytes = planFileBytes(plan);
  plan::FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::string hash = fmt::format("{:016x}{:016x}", header.hashHigh, header.hashLow);
  return json ? planFacts(plan, hash).dump(2) + "\n" : planText(plan, hash);
}

/// Compiles the kernels of a module of the plan dialect, then explains and writes the plan.
int finishPlan(mlir::ModuleOp module, const CompilerOptions &options) {
  auto kernels = module.lookupSymbol<mlir::ModuleOp>("kernels");
  if (!kernels)
    return fail(ExitCode::Failed, "the plan has no module @kernels");
  auto objects = codegen::compileKernels(kernels);
  if (mlir::failed(objects))
    return fail(ExitCode::Failed, "the kernels were not compiled");
  mlir::FailureOr<plan::PlanT> plan = buildPlan(module, std::move(*objects));
  if (mlir::failed(plan))
    return fail(ExitCode::Failed, "no plan was made");
  if (options.explain)
    llvm::outs() << explain(*plan, options.json);
  if (options.output.empty())
    return static_cast<int>(ExitCode::Done);
  if (llvm::Error error = writePlanFile(*plan, options.output))
    return fail(ExitCode::BadInput, "cannot write " + llvm::toString(std::move(error)));
  return static_cast<int>(ExitCode::Done);
}

/// Prints a form so that it can be read again. The kernels are no part of a plan's text: they are
/// compiled from another level.
void print(mlir::ModuleOp module, Stage stage) {
  if (stage == Stage::Plan)
    if (auto kernels = module.lookupSymbol<mlir::ModuleOp>("kernels"))
      kernels.erase();
  module.print(llvm::outs());
  llvm::outs() << '\n';
}

} // namespace

int main(int argc, char **argv) {
  CompilerOptions options;
  if (std::optional<int> code = parseCommandLine(argc, argv, options))
    return *code;

  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler diagnostics(sources, &context);

  ImportOptions import;
  import.batch = options.batch;
  import.microBatch = options.microBatch;
  import.time = options.time;
  import.optimizer = options.optimizer;
  import.dropout = options.dropout;
  import.threads = options.threads;
  bool isModule = llvm::StringRef(options.model).ends_with(".mlir");
  if (import.threads == 0 && !isModule)
    import.threads = std::max(1u, std::thread::hardware_concurrency());
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> module =
      importModel(context, options.model, import, modelFolders(argv[0]), sources);
  if (!module)
    return fail(ExitCode::BadInput, llvm::toString(module.takeError()));

  Stage stage = options.emit.empty() ? Stage::Plan : *stageNamed(options.emit);
  PipelineOptions passes;
  passes.statistics = options.statistics;
  passes.timing = options.timing;
  passes.printAfterAll = options.printAfterAll;
  if (mlir::failed(runPipeline(**module, stage, passes)))
    return fail(isModule ? ExitCode::BadInput : ExitCode::Failed,
                options.model + ": was not compiled");
  if (options.emit.empty())
    return finishPlan(**module, options);
  print(**module, stage);
  return static_cast<int>(ExitCode::Done);
}
