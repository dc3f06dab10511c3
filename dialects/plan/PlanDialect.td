// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_DIALECTS_PLAN_PLANDIALECT_TD
#define FTLM_DIALECTS_PLAN_PLANDIALECT_TD

include "mlir/IR/DialectBase.td"
include "mlir/IR/EnumAttr.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::ftlm::planir";
  let summary = "The schedule of one device: instructions on buffers";
  let description = [{
    The `plan` dialect has no tensors: a module holds buffers, the manifest of the parameters and programs, which
    are lists of instructions in the order in which they run. The memory pass gives every buffer its offset in the
    one arena of the device. What a plan file holds is this module.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

def Plan_BufferClass : I32EnumAttr<"BufferClass", "what a buffer is for", [
    I32EnumAttrCase<"Parameter", 0, "parameter">, I32EnumAttrCase<"Gradient", 1, "gradient">,
    I32EnumAttrCase<"Optimizer", 2, "optimizer">, I32EnumAttrCase<"Activation", 3, "activation">,
    I32EnumAttrCase<"Workspace", 4, "workspace">, I32EnumAttrCase<"Communication", 5, "communication">,
    I32EnumAttrCase<"Input", 6, "input">, I32EnumAttrCase<"Output", 7, "output">]> {
  let cppNamespace = "::ftlm::planir";
  let genSpecializedAttr = 0;
}

def Plan_InputKind : I32EnumAttr<"InputKind", "what the host fills a buffer with", [
    I32EnumAttrCase<"Tokens", 0, "tokens">, I32EnumAttrCase<"Targets", 1, "targets">,
    I32EnumAttrCase<"Weights", 2, "weights">, I32EnumAttrCase<"Examples", 3, "examples">,
    I32EnumAttrCase<"Positions", 4, "positions">, I32EnumAttrCase<"Random", 5, "random">,
    I32EnumAttrCase<"Hyper", 6, "hyper">]> {
  let cppNamespace = "::ftlm::planir";
  let genSpecializedAttr = 0;
}

def Plan_OutputKind : I32EnumAttr<"OutputKind", "what the host reads from a buffer", [
    I32EnumAttrCase<"Loss", 0, "loss">, I32EnumAttrCase<"GradNorm", 1, "grad_norm">,
    I32EnumAttrCase<"Logits", 2, "logits">, I32EnumAttrCase<"Gradient", 3, "gradient">]> {
  let cppNamespace = "::ftlm::planir";
  let genSpecializedAttr = 0;
}
#endif
