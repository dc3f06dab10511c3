// SPDX-License-Identifier: Apache-2.0
// Sums of tensors.
#ifndef FTLM_DIALECTS_LM_ELEMENTWISE_TD
#define FTLM_DIALECTS_LM_ELEMENTWISE_TD

include "dialects/lm/LmBase.td"

def Lm_AddOp : Lm_Op<"add", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface>, Commutative, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>]> {
  let summary = "the elementwise sum";
  let description = [{
    Example:

    ```mlir
    %y = lm.add %x, %a : tensor<4x8x48xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$lhs, Lm_Tensor:$rhs);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

#endif
