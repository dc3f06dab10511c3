// SPDX-License-Identifier: Apache-2.0
// The loader of plans takes any bytes: as a file, and as the payload of one whose header and hash
// are right, so that the checks behind the hash are reached.
#include "runtime/plan/LoadedPlan.h"
#include "schema/PlanFile.h"

#include <cstring>
#include <xxhash.h>

using namespace ftlm;

static void load(std::vector<std::byte> bytes) {
  try {
    LoadedPlan::fromBytes(std::move(bytes), "input.ftlm");
  } catch (const Error &) {
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::span<const std::byte> payload(reinterpret_cast<const std::byte *>(data), size);
  load({payload.begin(), payload.end()});
  XXH128_hash_t hash = XXH3_128bits(data, size);
  plan::FileHeader header{{}, plan::fileVersion, sizeof(header), size, hash.low64, hash.high64};
  std::memcpy(header.magic, plan::fileMagic, sizeof(header.magic));
  std::span<const std::byte> head = std::as_bytes(std::span(&header, 1));
  std::vector<std::byte> file(head.begin(), head.end());
  file.insert(file.end(), payload.begin(), payload.end());
  load(std::move(file));
  return 0;
}
