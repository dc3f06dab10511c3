// SPDX-License-Identifier: Apache-2.0
// The readers of token files take any bytes: they refuse them with an Error, or every id is one of
// the vocabulary and every line lies within the tokens. The first byte chooses the format.
#include "runtime/base/Error.h"
#include "runtime/data/Tokens.h"

#include <cstdlib>

using namespace ftlm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  constexpr int64_t vocabulary = 1000;
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte *>(data) + 1, size - 1);
  try {
    TokenStream stream;
    if (data[0] == 'b')
      appendBin(bytes, "input.bin", vocabulary, stream);
    else if (data[0] == 'n')
      appendNpy(bytes, "input.npy", vocabulary, stream);
    else
      forEachLine({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, "input.jsonl",
                  [&](const Document &document) {
                    if (document.promptSize < 0 || document.line < 1 ||
                        document.promptSize > static_cast<int64_t>(document.text.size()))
                      std::abort();
                  });
    for (int32_t id : stream.tokens)
      if (id < 0 || id >= vocabulary)
        std::abort();
  } catch (const Error &) {
  }
  return 0;
}
