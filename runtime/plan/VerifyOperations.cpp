// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/Safetensors.h"
#include "runtime/plan/PlanChecks.h"
#include "schema/WorkspaceSizes.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <set>

namespace ftlm {
namespace {

class OperationVerifier {
public:
  OperationVerifier(const PlanUnderCheck &under, const plan::Instruction &instruction,
                    const InstructionPlace &place)
      : under(under), instruction(instruction), place(place) {}

  void run() {
    switch (instruction.operation_type()) {
    case plan::Operation::Kernel:
      return kernel(*instruction.operation_as_Kernel());
    case plan::Operation::Gemm:
      return gemm(*instruction.operation_as_Gemm());
    case plan::Operation::Attention:
      return attention(*instruction.operation_as_Attention(), false);
    case plan::Operation::AttentionGrad:
      return attentionGrad(*instruction.operation_as_AttentionGrad());
    case plan::Operation::Copy:
      return copy(*instruction.operation_as_Copy());
    case plan::Operation::Zero:
      return declared(instruction.operation_as_Zero()->buffer(), true);
    case plan::Operation::Accumulate:
      return accumulate(*instruction.operation_as_Accumulate());
    case plan::Operation::Loop: // the program's checks
      return;
    default:
      throw fail(fmt::format("has operation {}, which this program does not know",
                             static_cast<int>(instruction.operation_type())));
    }
  }

private:
  Error fail(const std::string &what) const { return under.fail(place.text + " " + what); }

  /// That a buffer exists and is declared as read or written.
  void declared(int64_t index, bool write) const {
    if (index < 0 || index >= under.buffers())
      throw fail(fmt::format("names buffer {}; there are {}", index, under.buffers()));
    const auto &list = write ? *instruction.writes() : *instruction.reads();
    if (std::find(list.begin(), list.end(), static_cast<uint32_t>(index)) == list.end())
      throw fail(fmt::format("{} '{}' without declaring it", write ? "writes" : "reads",
                             under.nameOf(static_cast<uint32_t>(index))));
  }

  /// That an argument is declared, has the type and holds at least `elements` numbers.
  void argument(int64_t index, int64_t elements, bool write,
                plan::DType dtype = plan::DType::F32) const {
    declared(index, write);
    const plan::Buffer &b = under.buffer(static_cast<uint32_t>(index));
    if (b.dtype() != dtype)
      throw fail(fmt::format("takes '{}' as {}; it is {}", b.name()->str(),
                             plan::EnumNameDType(dtype), plan::EnumNameDType(b.dtype())));
    if (elements < 0 || static_cast<uint64_t>(elements) > b.bytes() / bytesOf(dtype))
      throw fail(fmt::format("needs {} elements of '{}', which has {}", elements, b.name()->str(),
                             b.bytes() / bytesOf(dtype)));
  }

  /// The product of sizes that are each within 1 and 2^40, or an error.
  int64_t product(std::initializer_list<int64_t> sizes) const {
    int64_t result = 1;
    for (int64_t size : sizes)
      if (size < 1 || size > (int64_t(1) << 40) || __builtin_mul_overflow(result, size, &result))
        throw fail(fmt::format("has a size that is not possible: {}", size));
    return result;
  }

  /// begin + (rows - 1) * stride + width, the elements that rows need; or an error.
  int64_t extent(int64_t begin, int64_t rows, int64_t stride, int64_t width) const {
    int64_t result;
    if (__builtin_mul_overflow(rows - 1, stride, &result) ||
        __builtin_add_overflow(result, width, &result) ||
        __builtin_add_overflow(result, begin, &result))
      throw fail(
          fmt::format("reaches out of all memory with offset {} and stride {}", begin, stride));
    return result;
  }

  void kernel(const plan::Kernel &k) const {
    const auto &reads = *instruction.reads(), &writes = *instruction.writes();
    for (uint32_t index : *k.arguments())
      if (index >= under.buffers() ||
          (std::find(reads.begin(), reads.end(), index) == reads.end() &&
           std::find(writes.begin(), writes.end(), index) == writes.end()))
        throw fail("passes a buffer that it does not declare");
    if (k.units() < 1 || k.grain() < 1 || k.symbol()->size() == 0)
      throw fail("has no kernel or no work");
  }

  void gemm(const plan::Gemm &g) const {
    product({g.m(), g.n(), g.k(), 1});
    if (g.lda() < (g.transpose_a() ? g.m() : g.k()) ||
        g.ldb() < (g.transpose_b() ? g.k() : g.n()) || g.ldc() < g.n() || g.tile_m() < 1 ||
        g.tile_n() < 1)
      throw fail("has leading dimensions or tiles that are too small");
    argument(g.a(),
             g.transpose_a() ? extent(0, g.k(), g.lda(), g.m()) : extent(0, g.m(), g.lda(), g.k()),
             false);
    argument(g.b(),
             g.transpose_b() ? extent(0, g.n(), g.ldb(), g.k()) : extent(0, g.k(), g.ldb(), g.n()),
             false);
    argument(g.c(), extent(0, g.m(), g.ldc(), g.n()), true);
    if (g.bias() >= 0)
      argument(g.bias(), g.n(), false);
  }

  /// One of q, k, v (`part` 0, 1, 2) or its adjoint.
  template <typename Table>
  void headRows(const Table &t, uint32_t buffer, uint32_t part, bool write) const {
    int64_t offset = t.offsets()->Get(part), stride = t.strides()->Get(part);
    int64_t width = product({part == 0 ? t.heads() : t.kv_heads(), t.head_size()});
    if (offset < 0 || stride < width)
      throw fail(fmt::format("has offset {} and stride {} for {}; expected offset 0 or more and "
                             "stride {} or more",
                             offset, stride, "qkv"[part], width));
    argument(buffer, extent(offset, product({t.batch(), t.time()}), stride, width), write);
  }

  template <typename Table>
  void attention(const Table &t, bool gradient) const {
    int64_t values = product({t.batch(), t.time(), t.heads(), t.head_size()});
    int64_t rows = product({t.batch(), t.heads(), t.time()});
    if (t.kv_heads() < 1 || t.heads() % t.kv_heads() != 0)
      throw fail(fmt::format("has {} heads of queries and {} of keys; expected a multiple",
                             t.heads(), t.kv_heads()));
    if (!(t.dropout() >= 0 && t.dropout() < 1))
      throw fail(
          fmt::format("has the dropout rate {}; expected 0 or more and below 1", t.dropout()));
    if (t.offsets()->size() != 3 || t.strides()->size() != 3)
      throw fail(fmt::format("has {} offsets and {} strides; expected 3 of each",
                             t.offsets()->size(), t.strides()->size()));
    headRows(t, t.q(), 0, false);
    headRows(t, t.k(), 1, false);
    headRows(t, t.v(), 2, false);
    argument(t.out(), values, !gradient);
    argument(t.lse(), rows, !gradient);
    product(
        {t.time(), t.head_size(), attentionQueries * attentionKeys}); // the scratch can be computed
    argument(t.workspace(),
             product({attentionWorkspaceBytes(t.time(), t.head_size()) / 4, under.plan.threads()}),
             true);
    if (t.dropout() > 0) {
      argument(t.random(), 2, false, plan::DType::I64);
      argument(t.examples(), t.batch(), false, plan::DType::I32);
    }
  }

  void attentionGrad(const plan::AttentionGrad &t) const {
    attention(t, true);
    argument(t.d_out(), product({t.batch(), t.time(), t.heads(), t.head_size()}), false);
    headRows(t, t.d_q(), 0, true);
    headRows(t, t.d_k(), 1, true);
    headRows(t, t.d_v(), 2, true);
  }

  /// That `bytes` from byte round * step on lie in a buffer in the last round, and so in all.
  void range(uint32_t index, int64_t step, uint64_t bytes) const {
    int64_t last = std::max<int64_t>(place.rounds, 1) - 1, begin;
    uint64_t size = under.buffer(index).bytes();
    if (step < 0 || __builtin_mul_overflow(last, step, &begin) || bytes > size ||
        static_cast<uint64_t>(begin) > size - bytes)
      throw fail(fmt::format("copies {} bytes in each of {} rounds with step {} in '{}', which has "
                             "{} bytes",
                             bytes, last + 1, step, under.nameOf(index), size));
  }

  void copy(const plan::Copy &c) const {
    declared(c.source(), false);
    declared(c.destination(), true);
    uint64_t bytes =
        std::min(under.buffer(c.source()).bytes(), under.buffer(c.destination()).bytes());
    range(c.source(), c.source_step(), bytes);
    range(c.destination(), c.destination_step(), bytes);
  }

  void accumulate(const plan::Accumulate &a) const {
    if (place.rounds == 0)
      throw fail("adds up micro-batches outside of a loop");
    if (a.units() < 1 || a.grain() < 1 || a.add()->size() == 0)
      throw fail("has no kernel or no work");
    argument(a.source(), a.units(), false);
    argument(a.source(), a.units(), true);
    std::set<uint32_t> roots{under.root(a.source())};
    for (uint32_t i = 0; i < a.levels()->size(); ++i) {
      uint32_t level = a.levels()->Get(i);
      argument(level, a.units(), true);
      bool topAgain = i > 0 && i + 1 == a.levels()->size() && level == a.levels()->Get(i - 1);
      if (!topAgain && !roots.insert(under.root(level)).second)
        throw fail(fmt::format("has the level '{}' twice, or as its source", under.nameOf(level)));
    }
    auto needed = static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(place.rounds)));
    if (a.levels()->size() < needed)
      throw fail(fmt::format("has {} levels; {} rounds need {}", a.levels()->size(), place.rounds,
                             needed));
  }

  const PlanUnderCheck &under;
  const plan::Instruction &instruction;
  const InstructionPlace &place;
};

} // namespace

void verifyOperation(const PlanUnderCheck &under, const plan::Instruction &instruction,
                     const InstructionPlace &place) {
  OperationVerifier(under, instruction, place).run();
}

} // namespace ftlm
