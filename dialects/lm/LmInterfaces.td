// SPDX-License-Identifier: Apache-2.0
// What an op says of itself. Passes ask these interfaces and name no op: adding an op is adding it
// to a file of its family.
#ifndef FTLM_DIALECTS_LM_LMINTERFACES_TD
#define FTLM_DIALECTS_LM_LMINTERFACES_TD

include "mlir/IR/OpBase.td"

def Lm_GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::ftlm::lm";
  let description = [{
    An op that can be differentiated. Its gradient is a set of ordinary `lm` ops, one per operand
    that wants an adjoint, so that the data gradient and the weight gradients stay apart: they go
    to different places in a pipeline schedule.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the ops that compute the adjoints of the operands and returns one value per operand,
      null where `wanted[i]` is false or the operand has no adjoint (integers, weights of the
      data). `adjoints[j]` is the adjoint of result j, or null when that result is not
      differentiated (statistics). Values of the forward pass that the emitted ops use (operands
      and results of this op) are what has to be kept for the backward pass.
    }], "::llvm::SmallVector<::mlir::Value>", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$adjoints,
         "::llvm::ArrayRef<bool>":$wanted)>
  ];
}

def Lm_ObjectiveOpInterface : OpInterface<"ObjectiveOpInterface"> {
  let cppNamespace = "::ftlm::lm";
  let description = [{
    A term of the objective, from which differentiation starts. The weights of the data hold the
    whole objective, so the adjoint of every loss is 1.
  }];
  let methods = [
    InterfaceMethod<"The operand that gets an adjoint: the logits.", "::mlir::Value", "getPrediction">,
    InterfaceMethod<"Emits the adjoint of the prediction.", "::mlir::Value", "buildSeed",
      (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def Lm_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::ftlm::lm";
  let description = "An op whose work is known: what planning and `--explain` add up.";
  let methods = [
    InterfaceMethod<"Floating-point operations; a multiply-add counts as two.",
      "int64_t", "getFlops">,
    InterfaceMethod<"Bytes read and written when no operand is in a cache.",
      "int64_t", "getBytes", (ins), [{}], [{
        int64_t bytes = 0;
        auto add = [&](::mlir::Type type) {
          if (auto shaped = ::llvm::dyn_cast<::mlir::RankedTensorType>(type))
            bytes += shaped.getNumElements() * ((shaped.getElementTypeBitWidth() + 7) / 8);
        };
        for (::mlir::Type type : $_op->getOperandTypes()) add(type);
        for (::mlir::Type type : $_op->getResultTypes()) add(type);
        return bytes;
      }]>
  ];
}

def Lm_RandomOpInterface : OpInterface<"RandomOpInterface"> {
  let cppNamespace = "::ftlm::lm";
  let description = "An op that draws random numbers in training and none in evaluation.";
  let methods = [
    InterfaceMethod<[{
      Takes the randomness out: changes the op, or replaces it by an operand and erases it.
    }], "void", "removeRandom">
  ];
}

def Lm_RowKernelOpInterface : OpInterface<"RowKernelOpInterface"> {
  let cppNamespace = "::ftlm::lm";
  let description = [{
    An op that runs over the rows of a tensor, one after the other. Ops over the same rows share a
    generated kernel: what stays inside is never in memory. An op says how it reaches its operands,
    which sums over a row it needs, and how a chunk of 16 columns of its result is computed
    (dialects/kernel/RowEmitter.h); loops, tails, folds and stores are the generator's.
  }];
  let methods = [
    InterfaceMethod<"How operand number i is read.", "::ftlm::kernel::Access", "operandAccess",
      (ins "unsigned":$operand)>,
    InterfaceMethod<"What result number i is: Row, Number or Sum.", "::ftlm::kernel::Access", "resultAccess", (ins "unsigned":$result),
      [{}], [{ (void)result; return ::ftlm::kernel::Access::Row; }]>,
    InterfaceMethod<"The sums and maxima over the columns of a row.",
      "::llvm::SmallVector<::ftlm::kernel::Reduction>", "reductions", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"The chunk that is added to a reduction.", "::mlir::Value", "reductionTerm",
      (ins "unsigned":$reduction, "::ftlm::kernel::RowEmitter &":$row, "::ftlm::kernel::Chunk":$chunk), [{}],
      [{ (void)reduction; (void)row; (void)chunk; return {}; }]>,
    InterfaceMethod<"Called with the total of a reduction, once a row: gives results that are numbers.", "void",
      "finishReduction", (ins "unsigned":$reduction, "::ftlm::kernel::RowEmitter &":$row), [{}],
      [{ (void)reduction; (void)row; }]>,
    InterfaceMethod<"A chunk of a result with Access::Row or Access::Sum (the row's term).", "::mlir::Value",
      "emitChunk", (ins "unsigned":$result, "::ftlm::kernel::RowEmitter &":$row,
                        "::ftlm::kernel::Chunk":$chunk)>,
    InterfaceMethod<"Does the op draw from a random site?", "bool", "drawsRandom", (ins), [{}],
      [{ return false; }]>
  ];
  let extraSharedClassDeclaration = [{
    /// The tensor whose rows the op runs over: the first result that is a row, else the first
    /// operand that is one.
    ::mlir::RankedTensorType getRowType() {
      for (unsigned i = 0; i < $_op->getNumResults(); ++i)
        if ($_op.resultAccess(i) == ::ftlm::kernel::Access::Row)
          return ::llvm::cast<::mlir::RankedTensorType>($_op->getResult(i).getType());
      for (unsigned i = 0; i < $_op->getNumOperands(); ++i)
        if ($_op.operandAccess(i) == ::ftlm::kernel::Access::Row)
          return ::llvm::cast<::mlir::RankedTensorType>($_op->getOperand(i).getType());
      return {};
    }
    int64_t getColumns() {
      auto type = getRowType();
      return type.getRank() == 0 ? 1 : type.getShape().back();
    }
    int64_t getRows() { return getRowType().getNumElements() / getColumns(); }
  }];
}

def Lm_KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::ftlm::lm";
  let description = [{
    An op with a generated kernel of its own: a sum over everything, a scatter, an update. The
    kernel's arguments are the operands, then the results.
  }];
  let methods = [
    InterfaceMethod<"Writes the body of the kernel and says how a launch is cut up.",
      "::ftlm::kernel::LaunchShape", "emitKernel", (ins "::ftlm::kernel::KernelBuilder &":$k)>,
    InterfaceMethod<"How a launch of this op is cut up.", "::ftlm::kernel::LaunchShape", "launchShape">,
    InterfaceMethod<[{
      Ops with equal keys share a kernel. The default tells types and attributes apart; an op whose
      kernel does not depend on its shapes says so here.
    }], "std::string", "kernelKey", (ins), [{}], [{
        std::string key;
        ::llvm::raw_string_ostream out(key);
        out << $_op->getName() << $_op->getOperandTypes() << $_op->getResultTypes()
            << $_op->getAttrDictionary();
        return key;
      }]>,
    InterfaceMethod<"The operand whose buffer result i may take over, or -1.", "int64_t", "inPlaceOperand",
      (ins "unsigned":$result), [{}], [{ (void)result; return -1; }]>
  ];
}

def Lm_InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let cppNamespace = "::ftlm::lm";
  let description = "An op that becomes instructions of a plan when its tensors have their buffers.";
  let methods = [
    InterfaceMethod<"Emits the instructions.", "void", "emitInstructions",
      (ins "::ftlm::planir::InstructionBuilder &":$builder)>
  ];
}

#endif
