// SPDX-License-Identifier: Apache-2.0
#include "compiler/interpret/Random.h"

#include "dialects/lm/Lm.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace ftlm::interpret {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t{0xD2511F53} * c[0], second = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(second >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(second),
         static_cast<uint32_t>(first >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(first)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return c;
}

Draw drawOf(const Tensor &random, const Tensor *examples) {
  return {random.integer(0), random.integer(1),
          examples ? examples->integers : std::vector<int64_t>()};
}

double dropoutFactor(const Draw &draw, double rate, int64_t site, int64_t example,
                     int64_t element) {
  auto seed = static_cast<uint64_t>(draw.seed);
  auto words = philox4x32({static_cast<uint32_t>(element / 4), static_cast<uint32_t>(example),
                           static_cast<uint32_t>(draw.step), static_cast<uint32_t>(site)},
                          {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  double uniform = (words[static_cast<size_t>(element % 4)] >> 8) * 0x1p-24;
  return uniform >= rate ? 1 / (1 - rate) : 0;
}

Tensor randomTensor(RankedTensorType type, uint64_t seed, StringRef name, double center,
                    double spread, int64_t limit) {
  Tensor tensor = Tensor::zeros(type);
  uint64_t hash = llvm::xxh3_64bits(name);
  std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  auto number = [&](size_t i) {
    auto words = philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                             static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)},
                            key);
    return (uint64_t{words[1]} << 32) | words[0];
  };
  for (size_t i = 0; i < tensor.floats.size(); ++i)
    tensor.floats[i] = center + spread * (static_cast<double>(number(i) >> 11) * 0x1p-52 - 1);
  for (size_t i = 0; i < tensor.integers.size(); ++i)
    tensor.integers[i] = static_cast<int64_t>(number(i) % static_cast<uint64_t>(limit));
  return tensor;
}

int64_t indexLimit(Value argument) {
  int64_t limit = 1024;
  auto within = [&](Value indexed, size_t dim) {
    limit = std::min(limit, cast<RankedTensorType>(indexed.getType()).getShape()[dim]);
  };
  for (OpOperand &use : argument.getUses())
    llvm::TypeSwitch<Operation *>(use.getOwner())
        .Case([&](lm::MicroBatchesOp op) {
          // The slice of the body is what is used as an index.
          limit = std::min(limit, indexLimit(op.getBody().getArgument(use.getOperandNumber())));
        })
        .Case([&](lm::EmbeddingOp op) { within(op.getTable(), 0); })
        .Case([&](lm::EmbeddingGradOp op) { within(op.getResult(), 0); })
        .Case([&](lm::TakePositionOp op) { within(op.getInput(), 1); })
        .Case([&](lm::TakePositionGradOp op) { within(op.getResult(), 1); })
        .Case([&](lm::CrossEntropyOp op) {
          within(op.getLogits(), static_cast<size_t>(op.getLogits().getType().getRank() - 1));
        })
        .Case([&](lm::CrossEntropyGradOp op) {
          within(op.getLogits(), static_cast<size_t>(op.getLogits().getType().getRank() - 1));
        });
  return limit;
}

} // namespace ftlm::interpret
