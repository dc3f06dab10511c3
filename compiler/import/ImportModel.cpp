// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/ImportModel.h"

#include "dialects/lm/Lm.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cstdlib>
#include <set>

using namespace llvm;

namespace ftlm {
namespace {

using Module = mlir::OwningOpRef<mlir::ModuleOp>;

Error fail(const Twine &place, const Twine &what) {
  return createStringError(place + ": " + what);
}

/// The names of the descriptions in `folders`.
std::set<std::string> knownModels(const std::vector<std::string> &folders) {
  std::set<std::string> names;
  for (const std::string &folder : folders) {
    std::error_code error;
    for (sys::fs::directory_iterator it(folder, error), end; it != end && !error;
         it.increment(error))
      if (sys::path::extension(it->path()) == ".toml")
        names.insert(sys::path::stem(it->path()).str());
  }
  return names;
}

/// "no such model", with the names that there are.
Error noSuchModel(const std::string &model, const std::vector<std::string> &folders) {
  std::set<std::string> names = knownModels(folders);
  std::string what = "is no file, no folder and no description";
  if (names.empty())
    what += "; there are no descriptions in " + join(folders, ", ") +
            " (the environment variable FTLM_MODELS_DIR names another folder)";
  else
    what += "; descriptions are " + join(names, ", ");
  return fail(model, what);
}

/// Checks that `settings` holds what the later stages read.
Error checkSettings(mlir::DictionaryAttr settings, const std::string &path) {
  for (const char *key : {"model", "config_json", "objective", "precision", "optimizer"})
    if (!settings.getAs<mlir::StringAttr>(key))
      return fail(path, "the attribute lm.settings has no text under '" + Twine(key) + "'");
  for (const char *key :
       {"batch", "micro_batch", "time", "vocabulary", "softmax", "threads", "generate_batch"}) {
    auto number = settings.getAs<mlir::IntegerAttr>(key);
    if (!number || !number.getType().isSignlessInteger(64) || number.getInt() < 1)
      return fail(path,
                  "the attribute lm.settings has no number above 0 under '" + Twine(key) + "'");
  }
  return Error::success();
}

Expected<Module> readLmModule(mlir::MLIRContext &context, const std::string &path,
                              const ImportOptions &options, SourceMgr &sources) {
  if (options.batch || options.microBatch || options.time || options.dropout || options.threads ||
      options.optimizer != ImportOptions().optimizer)
    return fail(path,
                "a module brings its own sizes, dropout, threads and optimizer in lm.settings; "
                "options for them work with a description or a folder");
  auto buffer = MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!buffer)
    return fail(path, "cannot be read: " + buffer.getError().message());
  sources.AddNewSourceBuffer(std::move(*buffer), SMLoc());
  Module module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (!module)
    return fail(path, "is not a module that ftlm reads");
  auto settings = (*module)->getAttrOfType<mlir::DictionaryAttr>("lm.settings");
  if (!settings)
    return fail(path, "the module has no attribute lm.settings; 'ftlmc MODEL --emit lm' shows one");
  if (Error error = checkSettings(settings, path))
    return error;
  if (!lm::programFor(*module, lm::Purpose::Objective))
    return fail(path, "the module has no lm.program objective");
  return module;
}

} // namespace

std::vector<std::string> modelFolders(const char *program) {
  if (const char *folder = std::getenv("FTLM_MODELS_DIR"))
    return {folder};
  static int anchor; // an address in this program, for the systems that need one
  std::string bin = sys::path::parent_path(sys::fs::getMainExecutable(program, &anchor)).str();
  std::vector<std::string> folders;
  for (const char *relative : {"/../../models", "/../share/ftlm/models"}) {
    SmallString<256> folder(bin + relative);
    sys::path::remove_dots(folder, /*remove_dot_dot=*/true);
    folders.push_back(folder.str().str());
  }
  return folders;
}

Expected<Module> importModel(mlir::MLIRContext &context, const std::string &model,
                             const ImportOptions &options, const std::vector<std::string> &folders,
                             SourceMgr &sources) {
  auto build = [&](Expected<ModelDescription> description) -> Expected<Module> {
    if (!description)
      return description.takeError();
    return buildModule(context, std::move(*description), options);
  };
  if (sys::fs::is_directory(model))
    return build(readHuggingFaceFolder(model));
  StringRef suffix = sys::path::extension(model);
  if (suffix == ".mlir")
    return readLmModule(context, model, options, sources);
  if ((suffix == ".toml") && !sys::fs::exists(model))
    return fail(model, "there is no such file");
  if (suffix == ".toml")
    return build(readTomlDescription(model));
  if (sys::path::filename(model) == "config.json")
    return fail(model, "give the folder that holds it");
  if (sys::fs::exists(model))
    return fail(model,
                "expected a description *.toml, a folder with config.json, or a module *.mlir");
  if (sys::path::filename(model) == model)
    for (const std::string &folder : folders)
      if (std::string path = folder + "/" + model + ".toml"; sys::fs::exists(path))
        return build(readTomlDescription(path));
  return noSuchModel(model, folders);
}

} // namespace ftlm
