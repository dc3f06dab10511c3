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
#endif
