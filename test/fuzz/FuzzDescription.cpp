// SPDX-License-Identifier: Apache-2.0
// The readers of models' descriptions take any text: they refuse it, or give a description that is
// consistent. Built twice: for TOML, and with FTLM_FUZZ_CONFIG for config.json.
#include "compiler/import/ModelDescription.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace ftlm;

/// A folder of this process, in memory where that is possible.
static std::filesystem::path folderOfProcess() {
  std::filesystem::path memory = "/dev/shm";
  std::filesystem::path parent =
      std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  std::filesystem::path folder = parent / ("ftlm-fuzz-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return folder;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct Folder {
    std::filesystem::path path = folderOfProcess();
    ~Folder() { std::filesystem::remove_all(path); }
  } folder;
#ifdef FTLM_FUZZ_CONFIG
  const char *name = "config.json";
#else
  const char *name = "model.toml";
#endif
  std::ofstream(folder.path / name, std::ios::binary)
      .write(reinterpret_cast<const char *>(data), static_cast<std::streamsize>(size));
#ifdef FTLM_FUZZ_CONFIG
  auto model = readHuggingFaceFolder(folder.path.string());
#else
  auto model = readTomlDescription((folder.path / name).string());
#endif
  if (!model) {
    if (llvm::toString(model.takeError()).empty())
      std::abort();
    return 0;
  }
  bool sizes = model->vocabulary > 0 && model->positions > 0 && model->width > 0 &&
               model->layers > 0 && model->heads > 0 && model->mlpWidth > 0;
  auto rate = [](double p) { return p >= 0 && p < 1; };
  if (!sizes || model->width % model->heads != 0 || !rate(model->embeddingDropout) ||
      !rate(model->attentionDropout) || !rate(model->residualDropout))
    std::abort();
  return 0;
}
