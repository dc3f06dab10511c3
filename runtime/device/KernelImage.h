// SPDX-License-Identifier: Apache-2.0
// The generated kernels of a plan, loaded into the process: the object for the best instruction set
// that the processor has. A symbol that is not there or a processor that fits none is an error
// before anything runs.
#pragma once

#include "schema/plan_generated.h"

#include <string>

namespace ftlm {

/// schema/plan.fbs, Kernel.
using KernelFunction = void (*)(void *const *arguments, const int64_t *scalars, int64_t begin,
                                int64_t end);

class KernelImage {
public:
  /// `isa` forces one of the plan's instruction sets, "" takes the best.
  KernelImage(const plan::Plan &plan, const std::string &isa = "");
  ~KernelImage();
  KernelImage(const KernelImage &) = delete;
  KernelImage &operator=(const KernelImage &) = delete;

  KernelFunction find(const std::string &symbol) const;
  const std::string &isa() const { return chosen; }

private:
  void *library = nullptr;
  int memory = -1;
  std::string chosen;
};

/// Has this processor "x86-64-v3" or "x86-64-v4"?
bool processorHas(const std::string &isa);

} // namespace ftlm
