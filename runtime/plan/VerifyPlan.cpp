// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/LoadedPlan.h"

#include "runtime/io/Safetensors.h"
#include "schema/WorkspaceSizes.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace ftlm {
namespace {

class PlanVerifier {
public:
  PlanVerifier(const plan::Plan &plan, const std::string &name) : plan(plan), name(name) {}

  void run() {
    if (plan.rank_classes()->size() != 1)
      throw fail("has several classes of ranks", "this program runs plans for one rank");
    if (plan.batch() < 1 || plan.micro_batch() < 1 || plan.time() < 1 || plan.threads() < 1 ||
        plan.vocabulary() < 1 || plan.micro_batches() < 1)
      throw fail("has a size below 1");
    rank = plan.rank_classes()->Get(0);
    buffers();
    state();
    for (uint32_t i = 0; i < rank->programs()->size(); ++i)
      program(*rank->programs()->Get(i), static_cast<int32_t>(i));
  }

private:
  Error fail(const std::string &what,
             const std::string &hint = "compile the plan again with ftlmc") {
    return badInput("plan " + name, what, hint);
  }
  const plan::Buffer &buffer(uint32_t index) { return *rank->buffers()->Get(index); }

  void buffers() {
    uint64_t arena = rank->summary()->arena_bytes();
    for (uint32_t i = 0; i < rank->buffers()->size(); ++i) {
      const plan::Buffer &b = buffer(i);
      uint64_t bytes = bytesOf(b.dtype());
      for (int64_t extent : *b.shape())
        if (extent < 1 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
          throw fail(fmt::format("buffer '{}' has a bad shape", b.name()->str()));
      if (bytes != b.bytes() || b.offset() > arena || bytes > arena - b.offset())
        throw fail(fmt::format(
            "buffer '{}' of {} bytes at {} does not fit its shape or the arena of {} bytes",
            b.name()->str(), b.bytes(), b.offset(), arena));
      if (b.view_of() >= 0) {
        if (static_cast<uint32_t>(b.view_of()) >= i)
          throw fail(fmt::format("buffer '{}' is a part of a later one", b.name()->str()));
        const plan::Buffer &parent = buffer(static_cast<uint32_t>(b.view_of()));
        if (b.offset() < parent.offset() ||
            b.offset() + b.bytes() > parent.offset() + parent.bytes())
          throw fail(fmt::format("buffer '{}' does not lie in '{}'", b.name()->str(),
                                 parent.name()->str()));
      } else if (b.offset() % 64 != 0) {
        throw fail(fmt::format("buffer '{}' lies at {}, which 64 does not divide", b.name()->str(),
                               b.offset()));
      }
      if (b.program() >= static_cast<int32_t>(rank->programs()->size()))
        throw fail(fmt::format("buffer '{}' is of program {}, which does not exist",
                               b.name()->str(), b.program()));
    }
    // Lasting buffers lie apart from all others; those of one program apart where both live.
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < rank->buffers()->size(); ++i)
      if (buffer(i).view_of() < 0)
        order.push_back(i);
    std::sort(order.begin(), order.end(),
              [&](uint32_t l, uint32_t r) { return buffer(l).offset() < buffer(r).offset(); });
    for (size_t i = 0; i < order.size(); ++i)
      for (size_t j = i + 1;
           j < order.size() &&
           buffer(order[j]).offset() < buffer(order[i]).offset() + buffer(order[i]).bytes();
           ++j) {
        const plan::Buffer &a = buffer(order[i]), &b = buffer(order[j]);
        bool always = a.program() < 0 || b.program() < 0;
        bool together = a.program() == b.program() && a.first() <= b.last() &&
                        b.first() <= a.last() && a.first() >= 0 && b.first() >= 0;
        if (always || together)
          throw fail(fmt::format("buffers '{}' and '{}' overlap while both live", a.name()->str(),
                                 b.name()->str()));
      }
  }

  void state() {
    auto check = [&](int32_t index, const std::string &what, const plan::Parameter &parameter) {
      if (index < -1 || index >= static_cast<int32_t>(rank->buffers()->size()))
        throw fail(
            fmt::format("parameter '{}' has no buffer for its {}", parameter.name()->str(), what));
      if (index < 0)
        return;
      uint64_t bytes = bytesOf(parameter.dtype());
      for (int64_t extent : *parameter.shape())
        bytes *= static_cast<uint64_t>(extent);
      if (buffer(static_cast<uint32_t>(index)).bytes() != bytes)
        throw fail(fmt::format("parameter '{}' has a buffer of another size for its {}",
                               parameter.name()->str(), what));
    };
    std::set<std::string> names;
    std::vector<bool> seen(plan.parameters()->size(), false);
    for (const plan::ParameterState *s : *rank->state()) {
      if (s->parameter() >= plan.parameters()->size() || seen[s->parameter()])
        throw fail("has a parameter state that belongs to none, or two for one parameter");
      seen[s->parameter()] = true;
      const plan::Parameter &parameter = *plan.parameters()->Get(s->parameter());
      if (!names.insert(parameter.name()->str()).second)
        throw fail(fmt::format("names the parameter '{}' twice", parameter.name()->str()));
      check(s->value(), "value", parameter);
      check(s->gradient(), "gradient", parameter);
      check(s->moment1(), "first moment", parameter);
      check(s->moment2(), "second moment", parameter);
      if (s->value() < 0 || (parameter.trainable() && s->gradient() < 0))
        throw fail(
            fmt::format("parameter '{}' has no value or no gradient", parameter.name()->str()));
    }
    if (std::find(seen.begin(), seen.end(), false) != seen.end())
      throw fail("has a parameter that no rank keeps");
  }

  void program(const plan::Program &p, int32_t number) {
    std::vector<bool> written(rank->buffers()->size(), false);
    auto bind = [&](const plan::Binding *binding) {
      if (binding->buffer() >= rank->buffers()->size())
        throw fail(fmt::format("program {} binds '{}' to no buffer", p.name()->str(),
                               binding->name()->str()));
    };
    for (const plan::Binding *binding : *p.inputs())
      bind(binding);
    for (const plan::Binding *binding : *p.outputs())
      bind(binding);
    std::vector<int> updates(rank->buffers()->size(), 0);
    for (uint32_t i = 0; i < p.instructions()->size(); ++i) {
      const plan::Instruction &instruction = *p.instructions()->Get(i);
      place = fmt::format("program {}, instruction {} '{}'", p.name()->str(), i,
                          instruction.name()->str());
      auto touch = [&](const flatbuffers::Vector<uint32_t> &list, bool write) {
        for (uint32_t index : list) {
          if (index >= rank->buffers()->size())
            throw fail(place + " names a buffer that does not exist");
          const plan::Buffer &b = buffer(index);
          if (b.program() >= 0 && b.program() != number)
            throw fail(fmt::format("{} touches '{}' of another program", place, b.name()->str()));
          uint32_t root = index;
          while (buffer(root).view_of() >= 0)
            root = static_cast<uint32_t>(buffer(root).view_of());
          if (b.program() >= 0 && (buffer(root).first() > static_cast<int32_t>(i) ||
                                   buffer(root).last() < static_cast<int32_t>(i)))
            throw fail(
                fmt::format("{} touches '{}', which does not live then", place, b.name()->str()));
          if (write) {
            written[root] = true;
            ++updates[index];
          } else if (b.program() >= 0 && !written[root]) {
            throw fail(fmt::format("{} reads '{}' before anything was written to it", place,
                                   b.name()->str()));
          }
        }
      };
      touch(*instruction.reads(), false);
      touch(*instruction.writes(), true);
      operation(instruction, number);
    }
    if (p.name()->str() == "update")
      for (const plan::ParameterState *s : *rank->state()) {
        const plan::Parameter &parameter = *plan.parameters()->Get(s->parameter());
        int expected = parameter.trainable() ? 1 : 0;
        if (updates[static_cast<size_t>(s->value())] != expected)
          throw fail(fmt::format("updates the parameter '{}' {} times in a step; expected {}",
                                 parameter.name()->str(), updates[static_cast<size_t>(s->value())],
                                 expected));
      }
  }

  /// Checks an argument: that it exists, is declared as read or written, and holds at least
  /// `elements` numbers.
  void argument(const plan::Instruction &instruction, int64_t index, int64_t elements, bool write) {
    if (index < 0 || index >= static_cast<int64_t>(rank->buffers()->size()))
      throw fail(place + " names a buffer that does not exist");
    const auto &list = write ? *instruction.writes() : *instruction.reads();
    if (std::find(list.begin(), list.end(), static_cast<uint32_t>(index)) == list.end())
      throw fail(fmt::format("{} {} '{}' without declaring it", place, write ? "writes" : "reads",
                             buffer(static_cast<uint32_t>(index)).name()->str()));
    const plan::Buffer &b = buffer(static_cast<uint32_t>(index));
    if (elements < 0 || static_cast<uint64_t>(elements) * bytesOf(b.dtype()) > b.bytes())
      throw fail(fmt::format("{} needs {} elements of '{}', which has {} bytes", place, elements,
                             b.name()->str(), b.bytes()));
  }

  /// The product of sizes that are each within 1 and 2^40, or an error.
  int64_t product(std::initializer_list<int64_t> sizes) {
    int64_t result = 1;
    for (int64_t size : sizes)
      if (size < 1 || size > (int64_t(1) << 40) || __builtin_mul_overflow(result, size, &result))
        throw fail(place + " has a size that is not possible");
    return result;
  }
  static int64_t matrix(int64_t rows, int64_t columns, int64_t ld) {
    return (rows - 1) * ld + columns;
  }

  template <typename Table>
  void attention(const plan::Instruction &i, const Table &t, bool gradient) {
    int64_t heads = product({t.batch(), t.time(), t.heads(), t.head_size()});
    int64_t packed = product({t.batch(), t.time(), t.heads() + 2 * t.kv_heads(), t.head_size()});
    int64_t rows = product({t.batch(), t.heads(), t.time()});
    if (t.kv_heads() < 1 || t.heads() % t.kv_heads() != 0 || !(t.dropout() >= 0 && t.dropout() < 1))
      throw fail(place + " has heads or a dropout rate that are not possible");
    argument(i, t.qkv(), packed, false);
    argument(i, t.out(), heads, !gradient);
    argument(i, t.lse(), rows, !gradient);
    argument(i, t.workspace(),
             attentionWorkspaceBytes(t.time(), t.head_size()) / 4 * plan.threads(), true);
    if (t.dropout() > 0) {
      argument(i, t.random(), 2, false);
      argument(i, t.examples(), t.batch(), false);
    }
  }

  void operation(const plan::Instruction &i, int32_t) {
    switch (i.operation_type()) {
    case plan::Operation::Kernel: {
      const plan::Kernel &k = *i.operation_as_Kernel();
      for (uint32_t index : *k.arguments())
        if (index >= rank->buffers()->size() ||
            (std::find(i.reads()->begin(), i.reads()->end(), index) == i.reads()->end() &&
             std::find(i.writes()->begin(), i.writes()->end(), index) == i.writes()->end()))
          throw fail(place + " passes a buffer that it does not declare");
      if (k.units() < 1 || k.grain() < 1 || k.symbol()->size() == 0)
        throw fail(place + " has no kernel or no work");
      break;
    }
    case plan::Operation::Gemm: {
      const plan::Gemm &g = *i.operation_as_Gemm();
      product({g.m(), g.n(), g.k(), 1});
      if (g.lda() < (g.transpose_a() ? g.m() : g.k()) ||
          g.ldb() < (g.transpose_b() ? g.k() : g.n()) || g.ldc() < g.n() || g.tile_m() < 1 ||
          g.tile_n() < 1)
        throw fail(place + " has leading dimensions or tiles that are too small");
      argument(i, g.a(),
               g.transpose_a() ? matrix(g.k(), g.m(), g.lda()) : matrix(g.m(), g.k(), g.lda()),
               false);
      argument(i, g.b(),
               g.transpose_b() ? matrix(g.n(), g.k(), g.ldb()) : matrix(g.k(), g.n(), g.ldb()),
               false);
      argument(i, g.c(), matrix(g.m(), g.n(), g.ldc()), true);
      if (g.bias() >= 0)
        argument(i, g.bias(), g.n(), false);
      break;
    }
    case plan::Operation::Attention:
      attention(i, *i.operation_as_Attention(), false);
      break;
    case plan::Operation::AttentionGrad: {
      const plan::AttentionGrad &t = *i.operation_as_AttentionGrad();
      attention(i, t, true);
      argument(i, t.d_out(), product({t.batch(), t.time(), t.heads(), t.head_size()}), false);
      argument(i, t.d_qkv(),
               product({t.batch(), t.time(), t.heads() + 2 * t.kv_heads(), t.head_size()}), true);
      break;
    }
    case plan::Operation::Copy: {
      const plan::Copy &c = *i.operation_as_Copy();
      argument(i, c.source(), 1, false);
      argument(i, c.destination(), 1, true);
      uint64_t needed = buffer(c.source()).bytes() *
                        (c.per_micro_batch() ? static_cast<uint64_t>(plan.micro_batches()) : 1);
      if (buffer(c.destination()).bytes() != needed)
        throw fail(place + " copies between buffers of other sizes");
      break;
    }
    case plan::Operation::Zero:
      argument(i, i.operation_as_Zero()->buffer(), 1, true);
      break;
    case plan::Operation::Accumulate: {
      const plan::Accumulate &a = *i.operation_as_Accumulate();
      argument(i, a.source(), a.units(), false);
      argument(i, a.source(), a.units(), true);
      for (uint32_t level : *a.levels())
        argument(i, level, a.units(), true);
      if (a.units() < 1 || a.grain() < 1 ||
          (int64_t(1) << a.levels()->size()) <= plan.micro_batches() - 1)
        throw fail(place + " has too few levels for the micro-batches of a step");
      break;
    }
    default:
      throw fail(place + " has an operation that this program does not know");
    }
  }

  const plan::Plan &plan;
  const std::string &name;
  const plan::RankClass *rank = nullptr;
  std::string place;
};

} // namespace

void verifyPlan(const plan::Plan &plan, const std::string &name) {
  PlanVerifier(plan, name).run();
}

} // namespace ftlm
