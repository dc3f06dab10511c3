// SPDX-License-Identifier: Apache-2.0
// The header of a plan file. The compiler writes it, the runtime checks it before it looks at a
// byte of the payload (one FlatBuffer of type ftlm::plan::Plan, see plan.fbs).
#pragma once

#include <cstdint>

namespace ftlm::plan {

/// All numbers little-endian. The payload follows at once.
struct FileHeader {
  char magic[8];         // "FTLMPLAN"
  uint32_t version;      // fileVersion
  uint32_t headerBytes;  // sizeof(FileHeader)
  uint64_t payloadBytes; // length of the FlatBuffer
  uint64_t hashLow;      // XXH3 of 128 bits, seed 0, of the payload: the plan's content hash
  uint64_t hashHigh;
};

inline constexpr char fileMagic[8] = {'F', 'T', 'L', 'M', 'P', 'L', 'A', 'N'};
inline constexpr uint32_t fileVersion = 2;

} // namespace ftlm::plan
