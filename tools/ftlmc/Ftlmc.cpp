// SPDX-License-Identifier: Apache-2.0
// ftlmc: compiles a model to a plan. Reads the command line, imports the model, runs the passes,
// and prints or writes what came out.
#include "compiler/Pipeline.h"
#include "compiler/import/ImportModel.h"
#include "runtime/base/Error.h"
#include "tools/ftlmc/Options.h"
#ifdef FTLM_HAS_PLAN
#include "compiler/explain/Explain.h"
#include "compiler/write/WritePlan.h"
#endif

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <thread>

using namespace ftlm;

namespace {

int fail(ExitCode code, const llvm::Twine &text) {
  llvm::errs() << "ftlmc: error: " << text << '\n';
  return static_cast<int>(code);
}

/// Writes and explains the plan that the module of the plan dialect describes.
int finishPlan(mlir::ModuleOp module, const CompilerOptions &options) {
#ifdef FTLM_HAS_PLAN
  mlir::FailureOr<plan::PlanT> plan = buildPlan(module);
  if (mlir::failed(plan))
    return fail(ExitCode::Failed, "no plan was written");
  if (options.explain)
    llvm::outs() << explainPlan(*plan, options.json);
  if (!options.output.empty() && mlir::failed(writePlanFile(*plan, options.output)))
    return fail(ExitCode::BadInput, options.output + ": cannot be written");
  return static_cast<int>(ExitCode::Done);
#else
  return fail(ExitCode::Unsupported, "this ftlmc was built without the plan writer; --emit works");
#endif
}

} // namespace

int main(int argc, char **argv) {
  CompilerOptions options;
  if (std::optional<int> code = parseCommandLine(argc, argv, options))
    return *code;

  mlir::DialectRegistry registry;
  registerCompiler(registry);
  mlir::MLIRContext context(registry);
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

  Form form = options.emit.empty() ? Form::Plan : *formNamed(options.emit);
  PipelineOptions passes;
  passes.statistics = options.statistics;
  passes.timing = options.timing;
  passes.printAfterAll = options.printAfterAll;
  if (mlir::failed(runPipeline(**module, form, passes)))
    return fail(isModule ? ExitCode::BadInput : ExitCode::Failed,
                options.model + ": was not compiled");
  if (options.emit.empty())
    return finishPlan(**module, options);
  (*module)->print(llvm::outs());
  return static_cast<int>(ExitCode::Done);
}
