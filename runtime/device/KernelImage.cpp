// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/KernelImage.h"

#include "runtime/base/Error.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ftlm {

bool processorHas(const std::string &isa) {
  if (isa == "x86-64-v3")
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
  if (isa == "x86-64-v4")
    return processorHas("x86-64-v3") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return false;
}

KernelImage::KernelImage(const plan::Plan &plan, const std::string &isa) {
  const plan::KernelImage *best = nullptr;
  std::string known;
  for (const plan::KernelImage *image : *plan.kernels()) {
    std::string name = image->isa()->str();
    known += (known.empty() ? "" : ", ") + name;
    if (processorHas(name) && (isa.empty() || isa == name))
      if (!best || name > best->isa()->str())
        best = image;
  }
  if (!best)
    throw Error(ExitCode::Unsupported, "plan " + plan.model()->str(),
                fmt::format("has kernels for {}{}, of which this processor has none", known,
                            isa.empty() ? "" : "; asked for " + isa),
                "ftlm needs a processor with AVX2");
  chosen = best->isa()->str();
  memory = memfd_create("ftlm-kernels", MFD_CLOEXEC);
  const auto &object = *best->object();
  if (memory < 0 ||
      ::write(memory, object.data(), object.size()) != static_cast<ssize_t>(object.size()))
    throw Error(ExitCode::Failed, "kernels",
                fmt::format("cannot be put into memory: {}", std::strerror(errno)));
  library = dlopen(fmt::format("/proc/self/fd/{}", memory).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw badInput("plan " + plan.model()->str(),
                   fmt::format("has kernels that cannot be loaded: {}", dlerror()));
}

KernelImage::~KernelImage() {
  if (library)
    dlclose(library);
  if (memory >= 0)
    ::close(memory);
}

KernelFunction KernelImage::find(const std::string &symbol) const {
  void *address = dlsym(library, symbol.c_str());
  if (!address)
    throw badInput("plan",
                   fmt::format("calls the kernel '{}', which its image does not have", symbol));
  return reinterpret_cast<KernelFunction>(address);
}

} // namespace ftlm
