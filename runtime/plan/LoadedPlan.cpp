// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/LoadedPlan.h"

#include "schema/PlanFile.h"

#include <cstring>
#include <fmt/format.h>
#include <xxhash.h>

namespace ftlm {

LoadedPlan LoadedPlan::load(const std::filesystem::path &path) {
  MappedFile file(path);
  return fromBytes(std::vector<std::byte>(file.bytes().begin(), file.bytes().end()), path.string());
}

LoadedPlan LoadedPlan::fromBytes(std::vector<std::byte> bytes, const std::string &name) {
  plan::FileHeader header;
  const char *again = "compile the plan again with ftlmc";
  if (bytes.size() < sizeof(header) ||
      std::memcmp(bytes.data(), plan::fileMagic, sizeof(plan::fileMagic)) != 0)
    throw badInput(name, "is no plan file", "give a file that ftlmc wrote");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != plan::fileVersion || header.headerBytes != sizeof(header))
    throw badInput(name,
                   fmt::format("is a plan of version {}; this program reads version {}",
                               header.version, plan::fileVersion),
                   again);
  if (header.payloadBytes != bytes.size() - sizeof(header))
    throw badInput(name,
                   fmt::format("has {} bytes after its header; it says {}",
                               bytes.size() - sizeof(header), header.payloadBytes),
                   again);
  const std::byte *payload = bytes.data() + sizeof(header);
  XXH128_hash_t hash = XXH3_128bits(payload, header.payloadBytes);
  if (hash.low64 != header.hashLow || hash.high64 != header.hashHigh)
    throw badInput(name, "is damaged: its contents do not have the hash in its header", again);
  // FlatBuffers wants its buffers aligned.
  LoadedPlan result;
  result.bytes.assign(payload, payload + header.payloadBytes);
  result.contentHash = fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  auto *data = reinterpret_cast<const uint8_t *>(result.bytes.data());
  flatbuffers::Verifier verifier(data, result.bytes.size(), /*max_depth=*/16,
                                 /*max_tables=*/100'000'000);
  if (!plan::VerifyPlanBuffer(verifier))
    throw badInput(name, "is no well-formed plan", again);
  result.plan = plan::GetPlan(data);
  verifyPlan(*result.plan, name);
  return result;
}

} // namespace ftlm
