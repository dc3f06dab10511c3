// SPDX-License-Identifier: Apache-2.0
// The safetensors reader takes any bytes: it refuses them with an Error, or every view that it
// gives lies within them and is found by its name.
#include "runtime/io/Safetensors.h"

#include <cstdlib>

using namespace ftlm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte *>(data), size);
  try {
    SafetensorsFile file = SafetensorsFile::fromBytes(bytes, "input");
    size_t total = 0;
    for (const TensorView &tensor : file.tensors()) {
      total += tensor.data.size();
      bool inside = tensor.data.empty() ||
                    (tensor.data.data() >= bytes.data() && &tensor.data.back() <= &bytes.back());
      if (!inside || file.find(tensor.name) != &tensor || tensor.dtypeName().empty())
        std::abort();
    }
    if (total > size)
      std::abort();
  } catch (const Error &) {
  }
  return 0;
}
