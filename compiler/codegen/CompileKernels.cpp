// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/CompileKernels.h"

#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;

namespace ftlm::codegen {
namespace {

LogicalResult lowerToLlvmDialect(ModuleOp module) {
  // exp, tanh, erf and log as polynomials: calls to a mathematics library would not be vectorised.
  RewritePatternSet patterns(module.getContext());
  populateMathPolynomialApproximationPatterns(patterns);
  if (failed(applyPatternsGreedily(module, std::move(patterns))))
    return module.emitError("the polynomial approximations did not converge");
  static const bool registered = (mlir::registerAllPasses(), true);
  (void)registered;
  PassManager passes(module.getContext());
  constexpr StringRef pipeline =
      "canonicalize,cse,loop-invariant-code-motion,convert-vector-to-llvm,convert-scf-to-cf,"
      "convert-ub-to-llvm,"
      "convert-math-to-llvm,convert-arith-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,"
      "reconcile-unrealized-casts,canonicalize";
  if (failed(parsePassPipeline(pipeline, passes)))
    return failure();
  return passes.run(module);
}

/// Links one object file to a shared object.
FailureOr<std::vector<uint8_t>> link(ModuleOp module, StringRef object) {
  SmallString<64> objectPath, sharedPath;
  int descriptor;
  if (llvm::sys::fs::createTemporaryFile("ftlm-kernels", "o", descriptor, objectPath) ||
      llvm::sys::fs::createTemporaryFile("ftlm-kernels", "so", sharedPath))
    return module.emitError("cannot make a temporary file"), failure();
  llvm::FileRemover removeObject(objectPath), removeShared(sharedPath);
  {
    llvm::raw_fd_ostream out(descriptor, /*shouldClose=*/true);
    out << object;
    if (out.has_error())
      return module.emitError("cannot write ") << objectPath.str() << ": " << out.error().message(),
             failure();
  }
  std::string message;
  int code = llvm::sys::ExecuteAndWait(FTLM_LINKER,
                                       {FTLM_LINKER, "-shared", "-z", "noexecstack",
                                        "--build-id=none", "-o", sharedPath, objectPath},
                                       std::nullopt, {}, 0, 0, &message);
  if (code != 0)
    return module.emitError() << FTLM_LINKER << " ended with " << code << ": " << message,
           failure();
  auto buffer = llvm::MemoryBuffer::getFile(sharedPath);
  if (!buffer)
    return module.emitError("cannot read the linked kernels: ") << buffer.getError().message(),
           failure();
  StringRef bytes = (*buffer)->getBuffer();
  return std::vector<uint8_t>(bytes.bytes_begin(), bytes.bytes_end());
}

FailureOr<std::vector<uint8_t>> compileFor(ModuleOp module, StringRef isa) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context, "kernels");
  if (!llvmModule)
    return module.emitError("cannot be translated to LLVM IR"), failure();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return module.emitError("LLVM has no x86-64 target: ") << message, failure();
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, isa, "", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
  llvmModule->setTargetTriple(triple);
  llvmModule->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *llvmModule)
    if (!function.isDeclaration()) {
      function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr("target-cpu", isa);
    }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  llvm::ModulePassManager manager;
  if (llvm::Error error =
          builder.parsePassPipeline(manager, "function(sroa,early-cse,instcombine,simplifycfg,loop-"
                                             "mssa(licm),gvn,instcombine,simplifycfg)"))
    return module.emitError(llvm::toString(std::move(error))), failure();
  manager.run(*llvmModule, modules);

  SmallString<0> object;
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager emit;
  if (machine->addPassesToEmitFile(emit, out, nullptr, llvm::CodeGenFileType::ObjectFile))
    return module.emitError("LLVM cannot write object files"), failure();
  emit.run(*llvmModule);
  return link(module, object);
}

} // namespace

FailureOr<std::vector<KernelObject>> compileKernels(ModuleOp kernels) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  kernels.getContext()->appendDialectRegistry(registry);

  OwningOpRef<ModuleOp> copy(kernels.clone());
  if (failed(lowerToLlvmDialect(*copy)))
    return failure();
  std::vector<KernelObject> objects;
  for (StringRef isa : {"x86-64-v3", "x86-64-v4"}) {
    FailureOr<std::vector<uint8_t>> object = compileFor(*copy, isa);
    if (failed(object))
      return failure();
    objects.push_back({isa.str(), std::move(*object)});
  }
  return objects;
}

} // namespace ftlm::codegen
