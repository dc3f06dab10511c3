// SPDX-License-Identifier: Apache-2.0
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

#endif
