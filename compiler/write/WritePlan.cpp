// SPDX-License-Identifier: Apache-2.0
#include "compiler/write/WritePlan.h"

#include "compiler/memory/Lifetimes.h"

#include "dialects/plan/Plan.h"
#include "schema/GemmTiles.h"
#include "schema/PlanFile.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>
#include <xxhash.h>

using namespace mlir;

namespace ftlm {
namespace {

plan::DType dtypeOf(Type element) {
  if (element.isF32())
    return plan::DType::F32;
  if (element.isBF16())
    return plan::DType::BF16;
  if (element.isF16())
    return plan::DType::F16;
  return element.isInteger(64) ? plan::DType::I64 : plan::DType::I32;
}

std::vector<int64_t> shapeOf(Type type) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  return std::vector<int64_t>(shape.begin(), shape.end());
}

class Writer {
public:
  explicit Writer(ModuleOp module) : module(module) {}

  FailureOr<plan::PlanT> build(std::vector<codegen::KernelObject> kernels) {
    auto arenas = module.getOps<planir::ArenaOp>();
    auto settings = module->getAttrOfType<DictionaryAttr>("lm.settings");
    if (arenas.empty() || !settings)
      return module.emitError(
                 "has no plan.arena or no lm.settings: run plan-lower and plan-memory first"),
             failure();
    auto text = [&](StringRef key) {
      auto attr = settings.getAs<StringAttr>(key);
      return attr ? attr.str() : std::string();
    };
    auto number = [&](StringRef key) {
      auto attr = settings.getAs<IntegerAttr>(key);
      return attr ? attr.getInt() : 0;
    };
    plan.producer = "ftlmc " FTLM_VERSION;
    plan.model = text("model");
    plan.config_json = text("config_json");
    plan.objective = text("objective");
    plan.precision = text("precision");
    plan.batch = number("batch");
    plan.micro_batch = number("micro_batch");
    plan.micro_batches = (plan.batch + plan.micro_batch - 1) / plan.micro_batch;
    plan.time = number("time");
    plan.vocabulary = number("vocabulary");
    plan.softmax = number("softmax");
    plan.threads = number("threads");
    std::string rule = text("optimizer");
    plan.optimizer = rule == "sgd"         ? plan::Optimizer::Sgd
                     : rule == "adam_gpt1" ? plan::Optimizer::AdamGpt1
                                           : plan::Optimizer::AdamW;
    auto rank = std::make_unique<plan::RankClassT>();
    rank->ranks = {0};
    rank->summary = std::make_unique<plan::SummaryT>();
    rank->summary->arena_bytes = (*arenas.begin()).getBytes();
    rank->summary->lower_bound_bytes = (*arenas.begin()).getLowerBound();
    rankClass = rank.get();
    plan.rank_classes.push_back(std::move(rank));

    for (Operation &op : *module.getBody()) {
      if (auto buffer = dyn_cast<planir::BufferOp>(op))
        addBuffer(buffer, -1);
      else if (auto parameter = dyn_cast<planir::ParameterOp>(op))
        addParameter(parameter);
      else if (auto program = dyn_cast<planir::ProgramOp>(op))
        addProgram(program);
    }
    summarize();
    for (codegen::KernelObject &kernel : kernels) {
      auto image = std::make_unique<plan::KernelImageT>();
      image->isa = kernel.isa;
      image->object = std::move(kernel.object);
      plan.kernels.push_back(std::move(image));
    }
    return std::move(plan);
  }

private:
  uint32_t add(Value value, StringRef name, planir::BufferClass kind, Type type, int64_t offset,
               int32_t program, int32_t parent) {
    auto buffer = std::make_unique<plan::BufferT>();
    buffer->name = name.str();
    buffer->dtype = dtypeOf(cast<RankedTensorType>(type).getElementType());
    buffer->shape = shapeOf(type);
    buffer->buffer_class = static_cast<plan::BufferClass>(kind);
    buffer->offset = static_cast<uint64_t>(offset);
    buffer->bytes = static_cast<uint64_t>(planir::bytesOf(type));
    buffer->program = program;
    buffer->view_of = parent;
    auto index = static_cast<uint32_t>(rankClass->buffers.size());
    numbers[value] = index;
    rankClass->buffers.push_back(std::move(buffer));
    return index;
  }
  void addBuffer(planir::BufferOp op, int32_t program) {
    add(op, op.getName(), op.getBufferClass(), op.getType(), op.getOffset().value_or(0), program,
        -1);
  }
  uint32_t indexOf(Value value) { return numbers.lookup(value); }

  void addParameter(planir::ParameterOp op) {
    auto parameter = std::make_unique<plan::ParameterT>();
    auto type = cast<RankedTensorType>(op.getType());
    parameter->name = op.getName().str();
    parameter->shape = shapeOf(type);
    parameter->dtype = dtypeOf(type.getElementType());
    parameter->init = op.getInit().getKind() == lm::InitKind::Normal ? plan::InitKind::Normal
                                                                     : plan::InitKind::Constant;
    parameter->init_value = op.getInit().getValue();
    parameter->decay = op.getDecay();
    parameter->trainable = !op.getFrozen();
    parameter->view = op.getView().value_or(0);
    if (auto stored = op.getStored())
      for (auto piece : stored->getAsRange<lm::StoredAttr>()) {
        auto entry = std::make_unique<plan::StoredPieceT>();
        entry->name = piece.getName().str();
        entry->row = piece.getRow();
        entry->rows = piece.getRows();
        parameter->stored.push_back(std::move(entry));
      }
    auto state = std::make_unique<plan::ParameterStateT>();
    state->parameter = static_cast<uint32_t>(plan.parameters.size());
    state->row_end = type.getShape()[0];
    auto optional = [&](Value value) { return value ? static_cast<int32_t>(indexOf(value)) : -1; };
    state->value = optional(op.getValue());
    if (op.getMoments().size() == 2) {
      state->moment1 = optional(op.getMoments()[0]);
      state->moment2 = optional(op.getMoments()[1]);
    }
    parameterNumbers[op.getName()] = static_cast<int32_t>(plan.parameters.size());
    plan.parameters.push_back(std::move(parameter));
    rankClass->state.push_back(std::move(state));
  }

  void addProgram(planir::ProgramOp op) {
    auto program = std::make_unique<plan::ProgramT>();
    program->name = op.getSymName().str();
    program->time = op.getTime();
    program->stream = op.getStream().str();
    program->purpose = purposeOf(op.getPurpose());
    auto number = static_cast<int32_t>(rankClass->programs.size());
    Lifetimes lifetimes(op);
    for (auto &[value, life] : lifetimes.buffers()) {
      addBuffer(value.getDefiningOp<planir::BufferOp>(), number);
      plan::BufferT &buffer = *rankClass->buffers.back();
      buffer.first = static_cast<int32_t>(life.first);
      buffer.last = static_cast<int32_t>(life.last);
    }
    op.walk([&](planir::ViewOp view) {
      uint32_t parent = indexOf(view.getSource());
      const plan::BufferT &source = *rankClass->buffers[parent];
      add(view, view.getName(), static_cast<planir::BufferClass>(source.buffer_class),
          view.getType(), static_cast<int64_t>(source.offset) + view.getByte(), number,
          static_cast<int32_t>(parent));
    });
    for (Operation &inner : op.getBody().front()) {
      if (auto input = dyn_cast<planir::InputOp>(inner)) {
        auto entry = std::make_unique<plan::InputT>();
        entry->kind = static_cast<plan::InputKind>(input.getKind());
        entry->buffer = indexOf(input.getBuffer());
        program->inputs.push_back(std::move(entry));
      } else if (auto output = dyn_cast<planir::OutputOp>(inner)) {
        auto entry = std::make_unique<plan::OutputT>();
        entry->kind = static_cast<plan::OutputKind>(output.getKind());
        entry->buffer = indexOf(output.getBuffer());
        if (auto parameter = output.getParameter())
          entry->parameter = parameterNumbers.lookup(*parameter);
        program->outputs.push_back(std::move(entry));
      }
    }
    for (Operation *instruction : lifetimes.instructions())
      addInstruction(*instruction, *program, lifetimes);
    rankClass->programs.push_back(std::move(program));
  }

  static plan::Purpose purposeOf(lm::Purpose purpose) {
    switch (purpose) {
    case lm::Purpose::Evaluate:
      return plan::Purpose::Evaluate;
    case lm::Purpose::Generate:
      return plan::Purpose::Generate;
    default:
      return plan::Purpose::Train;
    }
  }

  void addInstruction(Operation &op, plan::ProgramT &program, const Lifetimes &lifetimes) {
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->name = op.getAttrOfType<StringAttr>("name").str();
    auto touch = [&](ArrayRef<Value> values, std::vector<uint32_t> &list) {
      for (Value value : values) {
        if (llvm::is_contained(list, indexOf(value)))
          continue;
        list.push_back(indexOf(value));
        instruction->bytes += static_cast<int64_t>(rankClass->buffers[list.back()]->bytes);
      }
    };
    touch(planir::readsOf(&op), instruction->reads);
    touch(planir::writesOf(&op), instruction->writes);
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](planir::KernelOp o) {
          plan::KernelT kernel;
          kernel.symbol = o.getKernel().str();
          for (Value argument : o.getArguments())
            kernel.arguments.push_back(indexOf(argument));
          if (auto scalars = o.getScalars())
            kernel.scalars.assign(scalars->begin(), scalars->end());
          kernel.units = o.getUnits();
          kernel.grain = o.getGrain();
          instruction->operation.Set(std::move(kernel));
        })
        .Case([&](planir::GemmOp o) {
          plan::GemmT gemm;
          gemm.a = indexOf(o.getA());
          gemm.b = indexOf(o.getB());
          gemm.c = indexOf(o.getC());
          gemm.bias = o.getBias() ? static_cast<int32_t>(indexOf(o.getBias())) : -1;
          gemm.m = o.getM();
          gemm.n = o.getN();
          gemm.k = o.getK();
          gemm.lda = o.getLd()[0];
          gemm.ldb = o.getLd()[1];
          gemm.ldc = o.getLd()[2];
          gemm.transpose_a = o.getTransposeA();
          gemm.transpose_b = o.getTransposeB();
          GemmTile tile = gemmTile(gemm.m, gemm.n, gemm.k);
          gemm.tile_m = tile.m;
          gemm.tile_n = tile.n;
          instruction->flops = 2 * gemm.m * gemm.n * gemm.k;
          instruction->operation.Set(std::move(gemm));
        })
        .Case([&](planir::AttentionOp o) {
          plan::AttentionT attention;
          fillAttention(o, attention);
          instruction->flops = attentionFlops(attention) * 2;
          instruction->operation.Set(std::move(attention));
        })
        .Case([&](planir::AttentionGradOp o) {
          plan::AttentionGradT attention;
          fillAttention(o, attention);
          attention.d_out = indexOf(o.getDOut());
          attention.d_q = indexOf(o.getDQ());
          attention.d_k = indexOf(o.getDK());
          attention.d_v = indexOf(o.getDV());
          instruction->flops = attentionFlops(attention) * 5;
          instruction->operation.Set(std::move(attention));
        })
        .Case([&](planir::CopyOp o) {
          plan::CopyT copy;
          copy.source = indexOf(o.getSource());
          copy.destination = indexOf(o.getDestination());
          copy.source_step = o.getSourceStep().value_or(0);
          copy.destination_step = o.getDestinationStep().value_or(0);
          instruction->operation.Set(std::move(copy));
        })
        .Case([&](planir::ZeroOp o) {
          plan::ZeroT zero;
          zero.buffer = indexOf(o.getBuffer());
          instruction->operation.Set(std::move(zero));
        })
        .Case([&](planir::AccumulateOp o) {
          plan::AccumulateT accumulate;
          accumulate.source = indexOf(o.getSource());
          for (Value level : o.getLevels())
            accumulate.levels.push_back(indexOf(level));
          accumulate.add = o.getAdd().str();
          accumulate.units = o.getUnits();
          accumulate.grain = kernel::elementGrain;
          instruction->operation.Set(std::move(accumulate));
        })
        .Case([&](planir::LoopOp o) {
          plan::LoopT loop;
          loop.count = o.getCount();
          loop.length = static_cast<uint32_t>(lifetimes.lengthOf(o));
          instruction->operation.Set(std::move(loop));
        });
    program.instructions.push_back(std::move(instruction));
  }

  template <typename Op, typename Table>
  void fillAttention(Op op, Table &table) {
    table.q = indexOf(op.getQ());
    table.k = indexOf(op.getK());
    table.v = indexOf(op.getV());
    table.offsets.assign(op.getOffsets().begin(), op.getOffsets().end());
    table.strides.assign(op.getStrides().begin(), op.getStrides().end());
    table.out = indexOf(op.getOut());
    table.lse = indexOf(op.getLse());
    table.workspace = indexOf(op.getWorkspace());
    table.batch = op.getBatch();
    table.time = op.getTime();
    table.heads = op.getHeads();
    table.kv_heads = op.getKvHeads();
    table.head_size = op.getHeadSize();
    table.scale = op.getScale();
    if (op.getDropout()) {
      table.dropout = *op.getDropout();
      table.site = *op.getSite();
      table.random = static_cast<int32_t>(indexOf(op.getRandom()[0]));
      table.examples = static_cast<int32_t>(indexOf(op.getRandom()[1]));
    }
  }

  /// One product of a head over the causal half, all heads.
  template <typename Table>
  static int64_t attentionFlops(const Table &table) {
    return table.batch * table.heads * table.head_size * table.time * (table.time + 1);
  }

  /// Bytes by class at the time of the largest sum of live bytes; work of a step.
  void summarize() {
    plan::SummaryT &summary = *rankClass->summary;
    std::vector<uint64_t> persistent(8, 0), peak(8, 0);
    for (auto &buffer : rankClass->buffers)
      if (buffer->program < 0 && buffer->view_of < 0)
        persistent[static_cast<size_t>(buffer->buffer_class)] += buffer->bytes;
    uint64_t most = 0;
    for (auto [number, program] : llvm::enumerate(rankClass->programs)) {
      int64_t rounds = 1, inLoop = 0;
      for (auto &instruction : program->instructions) {
        if (program->purpose != plan::Purpose::Train)
          break;
        if (auto *loop = instruction->operation.AsLoop()) {
          rounds = loop->count;
          inLoop = loop->length;
          continue;
        }
        int64_t times = inLoop > 0 ? rounds : 1;
        inLoop = std::max<int64_t>(0, inLoop - 1);
        summary.flops += instruction->flops * times;
        if (instruction->operation.type == plan::Operation::Gemm)
          summary.matmul_flops += instruction->flops * times;
      }
      std::vector<int64_t> change(program->instructions.size() + 1, 0);
      for (auto &buffer : rankClass->buffers)
        if (buffer->program == static_cast<int32_t>(number) && buffer->view_of < 0 &&
            buffer->first >= 0) {
          change[static_cast<size_t>(buffer->first)] += static_cast<int64_t>(buffer->bytes);
          change[static_cast<size_t>(buffer->last) + 1] -= static_cast<int64_t>(buffer->bytes);
        }
      int64_t now = 0;
      for (auto [time, delta] : llvm::enumerate(change))
        if (now += delta; static_cast<uint64_t>(now) > most) {
          most = static_cast<uint64_t>(now);
          std::fill(peak.begin(), peak.end(), 0);
          for (auto &buffer : rankClass->buffers)
            if (buffer->program == static_cast<int32_t>(number) && buffer->view_of < 0 &&
                buffer->first <= static_cast<int32_t>(time) &&
                static_cast<int32_t>(time) <= buffer->last)
              peak[static_cast<size_t>(buffer->buffer_class)] += buffer->bytes;
        }
    }
    auto of = [&](plan::BufferClass kind) {
      return persistent[static_cast<size_t>(kind)] + peak[static_cast<size_t>(kind)];
    };
    summary.parameter_bytes = of(plan::BufferClass::Parameter);
    summary.gradient_bytes = of(plan::BufferClass::Gradient);
    summary.optimizer_bytes = of(plan::BufferClass::Optimizer);
    summary.activation_bytes = of(plan::BufferClass::Activation);
    summary.workspace_bytes = of(plan::BufferClass::Workspace);
    summary.communication_bytes = of(plan::BufferClass::Communication);
  }

  ModuleOp module;
  plan::PlanT plan;
  plan::RankClassT *rankClass = nullptr;
  DenseMap<Value, uint32_t> numbers;
  llvm::StringMap<int32_t> parameterNumbers;
};

} // namespace

FailureOr<plan::PlanT> buildPlan(ModuleOp module, std::vector<codegen::KernelObject> kernels) {
  return Writer(module).build(std::move(kernels));
}

std::vector<uint8_t> planFileBytes(const plan::PlanT &plan) {
  flatbuffers::FlatBufferBuilder builder(1 << 20);
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &plan));
  plan::FileHeader header{};
  std::memcpy(header.magic, plan::fileMagic, sizeof(header.magic));
  header.version = plan::fileVersion;
  header.headerBytes = sizeof(header);
  header.payloadBytes = builder.GetSize();
  XXH128_hash_t hash = XXH3_128bits(builder.GetBufferPointer(), builder.GetSize());
  header.hashLow = hash.low64;
  header.hashHigh = hash.high64;
  std::vector<uint8_t> bytes(sizeof(header) + builder.GetSize());
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), builder.GetBufferPointer(), builder.GetSize());
  return bytes;
}

llvm::Error writePlanFile(const plan::PlanT &plan, const std::string &path) {
  std::vector<uint8_t> bytes = planFileBytes(plan);
  return llvm::writeToOutput(path, [&](llvm::raw_ostream &out) {
    out.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    return llvm::Error::success();
  });
}

} // namespace ftlm
