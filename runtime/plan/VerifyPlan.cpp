// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/Safetensors.h"
#include "runtime/plan/LoadedPlan.h"
#include "runtime/plan/PlanChecks.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace ftlm {
namespace {

/// "0 (Train), 1 (Evaluate)": an enum's values, from its names in order.
std::string known(const char *const *names) {
  std::string result;
  for (int i = 0; names[i]; ++i)
    result += fmt::format("{}{} ({})", i ? ", " : "", i, names[i]);
  return result;
}

/// A row of the table at InputKind and OutputKind in plan.fbs.
struct HostBuffer {
  plan::DType dtype;
  uint64_t elements;
};

/// The checks of one program.
class ProgramVerifier {
public:
  ProgramVerifier(const PlanUnderCheck &under, const plan::Program &program, int32_t number)
      : under(under), program(program), number(number),
        text(fmt::format("program {}", program.name()->str())), written(under.buffers(), false),
        zones(under.buffers()), updates(under.plan.parameters()->size(), 0) {}

  void run() {
    size();
    inputs();
    auto count = static_cast<int32_t>(program.instructions()->size());
    for (int32_t i = 0; i < count; ++i)
      instruction(i);
    outputs();
    liveThroughLoops();
    if (program.purpose() == plan::Purpose::Train)
      for (const plan::ParameterState *state : *under.rank.state()) {
        const plan::Parameter &parameter = *under.plan.parameters()->Get(state->parameter());
        int expected = parameter.trainable() ? 1 : 0;
        if (int found = updates[state->parameter()]; found != expected)
          throw fail(fmt::format("has {} instructions that update the parameter '{}'; expected {}",
                                 found, parameter.name()->str(), expected));
      }
  }

private:
  /// The instructions that a loop runs.
  struct Body {
    int32_t first, last;
    int64_t rounds;
  };

  Error fail(const std::string &what) const { return under.fail(text + " " + what); }

  void size() const {
    int64_t time = under.plan.time();
    bool whole = program.purpose() != plan::Purpose::Generate;
    if (program.time() < 1 || program.time() > time || (whole && program.time() != time))
      throw fail(fmt::format("has {} positions; the plan has {}", program.time(), time));
  }

  /// Sequences that the host gives to a run.
  uint64_t sequences() const {
    auto rows = static_cast<uint64_t>(under.plan.micro_batch());
    switch (program.purpose()) {
    case plan::Purpose::Train:
      return rows * static_cast<uint64_t>(under.plan.micro_batches());
    case plan::Purpose::Evaluate:
      return rows;
    default:
      return 1; // generation has a batch of its own, of which the first sequence is used
    }
  }

  HostBuffer expected(plan::InputKind kind) const {
    uint64_t rows = sequences(), positions = rows * static_cast<uint64_t>(program.time());
    switch (kind) {
    case plan::InputKind::Tokens:
    case plan::InputKind::Targets:
      return {plan::DType::I32, positions};
    case plan::InputKind::Weights:
      return {plan::DType::F32, positions};
    case plan::InputKind::Examples:
    case plan::InputKind::Positions:
      return {plan::DType::I32, rows};
    case plan::InputKind::Random:
      return {plan::DType::I64, 2};
    case plan::InputKind::Hyper:
      return {plan::DType::F32, 8};
    }
    throw fail(fmt::format("has an input of kind {}; this program knows {}", static_cast<int>(kind),
                           known(plan::EnumNamesInputKind())));
  }

  HostBuffer expected(const plan::Output &output) const {
    switch (output.kind()) {
    case plan::OutputKind::Loss:
      return {plan::DType::F32, program.purpose() == plan::Purpose::Train
                                    ? static_cast<uint64_t>(under.plan.micro_batches())
                                    : 1};
    case plan::OutputKind::GradNorm:
      return {plan::DType::F32, 1};
    case plan::OutputKind::Logits:
      return {plan::DType::F32, sequences() * static_cast<uint64_t>(under.plan.softmax())};
    case plan::OutputKind::Gradient: {
      uint64_t elements = 1;
      for (int64_t extent :
           *under.plan.parameters()->Get(static_cast<uint32_t>(output.parameter()))->shape())
        elements *= static_cast<uint64_t>(extent); // state() has found that these fit
      return {plan::DType::F32, elements};
    }
    }
    throw fail(fmt::format("has an output of kind {}; this program knows {}",
                           static_cast<int>(output.kind()), known(plan::EnumNamesOutputKind())));
  }

  /// Does the host fill this input of such programs?
  bool filled(plan::InputKind kind) const {
    using enum plan::InputKind;
    switch (program.purpose()) {
    case plan::Purpose::Train:
      return kind != Positions;
    case plan::Purpose::Evaluate:
      return kind == Tokens || kind == Targets || kind == Weights || kind == Examples;
    default:
      return kind == Tokens || kind == Positions;
    }
  }

  void hostBuffer(const std::string &what, uint32_t index, HostBuffer wanted) const {
    if (index >= under.buffers())
      throw fail(
          fmt::format("has its {} in buffer {}; there are {}", what, index, under.buffers()));
    const plan::Buffer &b = under.buffer(index);
    if (b.dtype() != wanted.dtype || b.bytes() / bytesOf(wanted.dtype) < wanted.elements)
      throw fail(fmt::format("has its {} in '{}' of {} {}; expected {} {} or more", what,
                             b.name()->str(), b.bytes() / bytesOf(b.dtype()),
                             plan::EnumNameDType(b.dtype()), wanted.elements,
                             plan::EnumNameDType(wanted.dtype)));
    const plan::Buffer &root = under.buffer(under.root(index));
    if (root.program() >= 0 && root.program() != number)
      throw fail(fmt::format("has its {} in '{}' of another program", what, b.name()->str()));
  }

  void inputs() {
    std::set<plan::InputKind> seen;
    for (const plan::Input *input : *program.inputs()) {
      HostBuffer wanted = expected(input->kind());
      std::string what = fmt::format("input {}", plan::EnumNameInputKind(input->kind()));
      if (!seen.insert(input->kind()).second)
        throw fail(fmt::format("has two of the {}", what));
      if (!filled(input->kind()))
        throw fail(fmt::format("has the {}, which nobody fills for the purpose {}", what,
                               plan::EnumNamePurpose(program.purpose())));
      hostBuffer(what, input->buffer(), wanted);
      uint32_t root = under.root(input->buffer());
      if (keepsState(input->buffer()))
        throw fail(fmt::format("has its {} in '{}', which keeps state", what,
                               under.nameOf(input->buffer())));
      if (under.buffer(root).program() >= 0 && under.buffer(root).first() != 0)
        throw fail(fmt::format("has its {} in '{}', which lives from instruction {} on; expected 0",
                               what, under.nameOf(input->buffer()), under.buffer(root).first()));
      written[root] = true;
      zones[root].insert(outside);
    }
    if (program.purpose() == plan::Purpose::Generate)
      for (plan::InputKind kind : {plan::InputKind::Tokens, plan::InputKind::Positions})
        if (!seen.contains(kind))
          throw fail(fmt::format("has no input {}", plan::EnumNameInputKind(kind)));
  }

  void outputs() {
    std::set<std::pair<plan::OutputKind, int32_t>> seen;
    auto last = static_cast<int32_t>(program.instructions()->size()) - 1;
    auto parameters = static_cast<int32_t>(under.plan.parameters()->size());
    for (const plan::Output *output : *program.outputs()) {
      std::string what = fmt::format("output {}", plan::EnumNameOutputKind(output->kind()));
      bool gradient = output->kind() == plan::OutputKind::Gradient;
      if (gradient ? output->parameter() < 0 || output->parameter() >= parameters
                   : output->parameter() != -1)
        throw fail(fmt::format("has an {} of parameter {}; expected {}", what, output->parameter(),
                               gradient ? fmt::format("0 to {}", parameters - 1) : "none (-1)"));
      HostBuffer wanted = expected(*output);
      if (gradient)
        what += fmt::format(" of '{}'", under.plan.parameters()
                                            ->Get(static_cast<uint32_t>(output->parameter()))
                                            ->name()
                                            ->str());
      if (!seen.insert({output->kind(), output->parameter()}).second)
        throw fail(fmt::format("has two of the {}", what));
      hostBuffer(what, output->buffer(), wanted);
      uint32_t root = under.root(output->buffer());
      if (!written[root])
        throw fail(
            fmt::format("never writes its {} to '{}'", what, under.nameOf(output->buffer())));
      if (under.buffer(root).program() >= 0 && under.buffer(root).last() < last)
        throw fail(fmt::format("has its {} in '{}', which lives to instruction {}; expected {}",
                               what, under.nameOf(output->buffer()), under.buffer(root).last(),
                               last));
      zones[root].insert(outside);
    }
    auto need = [&](plan::OutputKind kind) {
      if (!seen.contains({kind, -1}))
        throw fail(fmt::format("has no output {}", plan::EnumNameOutputKind(kind)));
    };
    need(program.purpose() == plan::Purpose::Generate ? plan::OutputKind::Logits
                                                      : plan::OutputKind::Loss);
    if (program.purpose() == plan::Purpose::Train)
      need(plan::OutputKind::GradNorm);
  }

  void loop(const plan::Loop &l, int32_t i, bool inside, const std::string &place) {
    auto left = static_cast<int64_t>(program.instructions()->size()) - i - 1;
    if (inside)
      throw under.fail(place + " is a loop within a loop");
    if (l.count() < 1)
      throw under.fail(fmt::format("{} has {} rounds; expected 1 or more", place, l.count()));
    if (l.length() < 1 || l.length() > left)
      throw under.fail(fmt::format("{} repeats {} instructions; expected 1 to the {} that follow",
                                   place, l.length(), left));
    loops.push_back({i + 1, i + static_cast<int32_t>(l.length()), l.count()});
  }

  void instruction(int32_t i) {
    const plan::Instruction &now = *program.instructions()->Get(static_cast<uint32_t>(i));
    InstructionPlace place{fmt::format("{}, instruction {} '{}'", text, i, now.name()->str())};
    bool inside = !loops.empty() && i <= loops.back().last;
    if (inside)
      place.rounds = loops.back().rounds;
    int zone = inside ? static_cast<int>(loops.size()) - 1 : outside;
    for (uint32_t index : *now.reads())
      touch(index, i, zone, false, place.text);
    std::set<uint32_t> updated;
    for (uint32_t index : *now.writes()) {
      touch(index, i, zone, true, place.text);
      update(index, inside, updated, place.text);
    }
    for (uint32_t parameter : updated)
      ++updates[parameter];
    verifyOperation(under, now, place);
    if (const plan::Loop *l = now.operation_as_Loop())
      loop(*l, i, inside, place.text);
    if (const plan::Accumulate *accumulate = now.operation_as_Accumulate())
      for (uint32_t level : *accumulate->levels())
        liveThrough(under.root(level), loops.back());
  }

  void touch(uint32_t index, int32_t i, int zone, bool write, const std::string &place) {
    if (index >= under.buffers())
      throw under.fail(
          fmt::format("{} names buffer {}; there are {}", place, index, under.buffers()));
    uint32_t root = under.root(index);
    const plan::Buffer &b = under.buffer(root);
    if (b.program() >= 0 && b.program() != number)
      throw under.fail(
          fmt::format("{} touches '{}' of another program", place, under.nameOf(index)));
    if (b.program() >= 0 && (b.first() > i || b.last() < i))
      throw under.fail(fmt::format("{} touches '{}', which lives from {} to {}", place,
                                   under.nameOf(index), b.first(), b.last()));
    zones[root].insert(zone);
    if (write)
      written[root] = true;
    else if (b.program() >= 0 && !written[root])
      throw under.fail(fmt::format("{} reads '{}' before anything was written to it", place,
                                   under.nameOf(index)));
  }

  /// Is it, or is it a part of, a parameter or a moment?
  bool keepsState(uint32_t index) const {
    for (uint32_t b : {index, under.root(index)})
      if (under.buffer(b).buffer_class() == plan::BufferClass::Parameter ||
          under.buffer(b).buffer_class() == plan::BufferClass::Optimizer)
        return true;
    return false;
  }

  /// Notes in `updated` the parameters whose values an instruction writes through a buffer.
  void update(uint32_t index, bool inside, std::set<uint32_t> &updated, const std::string &place) {
    if (!keepsState(index))
      return;
    if (program.purpose() != plan::Purpose::Train)
      throw under.fail(fmt::format("{} writes '{}', which only training may change", place,
                                   under.nameOf(index)));
    const plan::Buffer &b = under.buffer(index);
    for (const plan::ParameterState *state : *under.rank.state()) {
      const plan::Buffer &value = under.buffer(static_cast<uint32_t>(state->value()));
      if (b.offset() >= value.offset() + value.bytes() || value.offset() >= b.offset() + b.bytes())
        continue;
      if (inside)
        throw under.fail(
            fmt::format("{} writes the parameter '{}' in a loop", place, value.name()->str()));
      updated.insert(state->parameter());
    }
  }

  void liveThrough(uint32_t root, const Body &body) const {
    const plan::Buffer &b = under.buffer(root);
    if (b.program() >= 0 && (b.first() > body.first || b.last() < body.last))
      throw fail(fmt::format("needs '{}' through the loop of instructions {} to {}, and it lives "
                             "from {} to {}",
                             b.name()->str(), body.first, body.last, b.first(), b.last()));
  }

  /// What is touched in a loop and outside of it must not be overwritten between rounds.
  void liveThroughLoops() const {
    for (uint32_t root = 0; root < under.buffers(); ++root)
      if (zones[root].size() > 1)
        for (int zone : zones[root])
          if (zone != outside)
            liveThrough(root, loops[static_cast<size_t>(zone)]);
  }

  static constexpr int outside = -1;
  const PlanUnderCheck &under;
  const plan::Program &program;
  int32_t number;
  std::string text;
  std::vector<Body> loops;
  std::vector<bool> written;        // by root buffer
  std::vector<std::set<int>> zones; // by root buffer: the loops that touch it, and `outside`
  std::vector<int> updates;         // by parameter
};

/// The checks of buffers and state, and then of all programs.
class PlanVerifier {
public:
  explicit PlanVerifier(const PlanUnderCheck &under) : under(under), rank(under.rank) {}

  void run() {
    buffers();
    state();
    std::map<plan::Purpose, std::string> purposes;
    for (uint32_t i = 0; i < rank.programs()->size(); ++i) {
      const plan::Program &program = *rank.programs()->Get(i);
      if (program.purpose() > plan::Purpose::MAX)
        throw under.fail(fmt::format("program {} has purpose {}; this program knows {}",
                                     program.name()->str(), static_cast<int>(program.purpose()),
                                     known(plan::EnumNamesPurpose())));
      auto [other, first] = purposes.emplace(program.purpose(), program.name()->str());
      if (!first)
        throw under.fail(fmt::format("has two programs for the purpose {}: {} and {}",
                                     plan::EnumNamePurpose(program.purpose()), other->second,
                                     program.name()->str()));
      ProgramVerifier(under, program, static_cast<int32_t>(i)).run();
    }
  }

private:
  void buffers() {
    uint64_t arena = rank.summary()->arena_bytes();
    for (uint32_t i = 0; i < rank.buffers()->size(); ++i) {
      const plan::Buffer &b = under.buffer(i);
      if (b.dtype() > plan::DType::MAX)
        throw under.fail(fmt::format("buffer '{}' has dtype {}; this program knows {}",
                                     b.name()->str(), static_cast<int>(b.dtype()),
                                     known(plan::EnumNamesDType())));
      uint64_t bytes = bytesOf(b.dtype());
      for (int64_t extent : *b.shape())
        if (extent < 1 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
          throw under.fail(fmt::format("buffer '{}' has a bad shape", b.name()->str()));
      if (bytes != b.bytes() || b.offset() > arena || bytes > arena - b.offset())
        throw under.fail(fmt::format(
            "buffer '{}' of {} bytes at {} does not fit its shape or the arena of {} bytes",
            b.name()->str(), b.bytes(), b.offset(), arena));
      if (b.view_of() >= 0) {
        if (static_cast<uint32_t>(b.view_of()) >= i)
          throw under.fail(fmt::format("buffer '{}' is a part of a later one", b.name()->str()));
        const plan::Buffer &parent = under.buffer(static_cast<uint32_t>(b.view_of()));
        if (b.offset() < parent.offset() ||
            b.offset() + b.bytes() > parent.offset() + parent.bytes())
          throw under.fail(fmt::format("buffer '{}' does not lie in '{}'", b.name()->str(),
                                       parent.name()->str()));
      } else if (b.offset() % 64 != 0) {
        throw under.fail(fmt::format("buffer '{}' lies at {}, which 64 does not divide",
                                     b.name()->str(), b.offset()));
      }
      if (b.program() >= static_cast<int32_t>(rank.programs()->size()))
        throw under.fail(fmt::format("buffer '{}' is of program {}, which does not exist",
                                     b.name()->str(), b.program()));
    }
    // Lasting buffers lie apart from all others; those of one program apart where both live.
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < rank.buffers()->size(); ++i)
      if (under.buffer(i).view_of() < 0)
        order.push_back(i);
    std::sort(order.begin(), order.end(), [&](uint32_t l, uint32_t r) {
      return under.buffer(l).offset() < under.buffer(r).offset();
    });
    for (size_t i = 0; i < order.size(); ++i)
      for (size_t j = i + 1;
           j < order.size() && under.buffer(order[j]).offset() <
                                   under.buffer(order[i]).offset() + under.buffer(order[i]).bytes();
           ++j) {
        const plan::Buffer &a = under.buffer(order[i]), &b = under.buffer(order[j]);
        bool always = a.program() < 0 || b.program() < 0;
        bool together = a.program() == b.program() && a.first() <= b.last() &&
                        b.first() <= a.last() && a.first() >= 0 && b.first() >= 0;
        if (always || together)
          throw under.fail(fmt::format("buffers '{}' and '{}' overlap while both live",
                                       a.name()->str(), b.name()->str()));
      }
  }

  void state() {
    auto check = [&](int32_t index, const char *what, plan::BufferClass kind,
                     const plan::Parameter &parameter) {
      if (index < -1 || index >= static_cast<int32_t>(under.buffers()))
        throw under.fail(
            fmt::format("parameter '{}' has no buffer for its {}", parameter.name()->str(), what));
      if (index < 0)
        return;
      uint64_t bytes = bytesOf(parameter.dtype());
      for (int64_t extent : *parameter.shape())
        if (extent < 1 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
          throw under.fail(fmt::format("parameter '{}' has a bad shape", parameter.name()->str()));
      const plan::Buffer &b = under.buffer(static_cast<uint32_t>(index));
      if (b.bytes() != bytes)
        throw under.fail(fmt::format("parameter '{}' has {} bytes for its {}; expected {}",
                                     parameter.name()->str(), b.bytes(), what, bytes));
      if (b.buffer_class() != kind ||
          under.buffer(under.root(static_cast<uint32_t>(index))).program() >= 0)
        throw under.fail(fmt::format("parameter '{}' has its {} in a buffer that is not {} and "
                                     "for ever",
                                     parameter.name()->str(), what,
                                     plan::EnumNameBufferClass(kind)));
    };
    std::set<std::string> names;
    std::vector<bool> seen(under.plan.parameters()->size(), false);
    for (const plan::ParameterState *s : *rank.state()) {
      if (s->parameter() >= under.plan.parameters()->size() || seen[s->parameter()])
        throw under.fail("has a parameter state that belongs to none, or two for one parameter");
      seen[s->parameter()] = true;
      const plan::Parameter &parameter = *under.plan.parameters()->Get(s->parameter());
      if (!names.insert(parameter.name()->str()).second)
        throw under.fail(fmt::format("names the parameter '{}' twice", parameter.name()->str()));
      check(s->value(), "value", plan::BufferClass::Parameter, parameter);
      check(s->moment1(), "first moment", plan::BufferClass::Optimizer, parameter);
      check(s->moment2(), "second moment", plan::BufferClass::Optimizer, parameter);
      if (s->value() < 0)
        throw under.fail(fmt::format("parameter '{}' has no value", parameter.name()->str()));
      rows(parameter);
    }
    if (std::find(seen.begin(), seen.end(), false) != seen.end())
      throw under.fail("has a parameter that no rank keeps");
  }

  /// Checks that the view and the stored pieces of a parameter lie in it.
  void rows(const plan::Parameter &p) {
    int64_t all = p.shape()->size() > 0 ? p.shape()->Get(0) : 0;
    if (p.view() < 0 || p.view() > all)
      throw under.fail(fmt::format("parameter '{}' of {} rows has a view of {}", p.name()->str(),
                                   all, p.view()));
    if (!p.stored())
      return;
    for (const plan::StoredPiece *piece : *p.stored())
      if (piece->row() < 0 || piece->rows() < 1 || piece->row() > all ||
          piece->rows() > all - piece->row())
        throw under.fail(fmt::format("parameter '{}' of {} rows is stored as '{}' from row {} on "
                                     "in {} rows",
                                     p.name()->str(), all, piece->name()->str(), piece->row(),
                                     piece->rows()));
  }

  const PlanUnderCheck &under;
  const plan::RankClass &rank;
};

} // namespace

void verifyPlan(const plan::Plan &plan, const std::string &name) {
  if (plan.rank_classes()->size() != 1)
    throw badInput("plan " + name,
                   fmt::format("has {} classes of ranks", plan.rank_classes()->size()),
                   "this program runs plans for one rank");
  PlanUnderCheck under{plan, *plan.rank_classes()->Get(0), name};
  constexpr int64_t most = int64_t(1) << 20; // so that products of three fit
  for (auto [what, size] : {std::pair{"batch", plan.batch()},
                            {"micro_batch", plan.micro_batch()},
                            {"micro_batches", plan.micro_batches()},
                            {"time", plan.time()},
                            {"threads", plan.threads()},
                            {"vocabulary", plan.vocabulary()},
                            {"softmax", plan.softmax()}})
    if (size < 1 || size > most)
      throw under.fail(fmt::format("has {} {}; expected 1 to {}", what, size, most));
  int64_t rounds = (plan.batch() + plan.micro_batch() - 1) / plan.micro_batch();
  if (plan.dp() == 1 && plan.micro_batches() != rounds)
    throw under.fail(fmt::format("has {} micro-batches of {} for a batch of {}; expected {}",
                                 plan.micro_batches(), plan.micro_batch(), plan.batch(), rounds));
  PlanVerifier(under).run();
}

} // namespace ftlm
