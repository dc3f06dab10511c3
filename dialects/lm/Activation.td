// SPDX-License-Identifier: Apache-2.0
// Pointwise nonlinearities, and their gradients.
#ifndef FTLM_DIALECTS_LM_ACTIVATION_TD
#define FTLM_DIALECTS_LM_ACTIVATION_TD

include "dialects/lm/LmBase.td"

def Lm_ActivationOp : Lm_Op<"activation", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface>, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>]> {
  let summary = "a pointwise nonlinearity";
  let description = [{
    `gelu_tanh`: `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`; `gelu`: `0.5 x (1 +
    erf(x / sqrt(2)))`; `relu`; `silu`: `x / (1 + exp(-x))`.

    Example:

    ```mlir
    %a = lm.activation gelu_tanh %u : tensor<4x8x192xf32>
    ```
  }];
  let arguments = (ins Lm_ActivationAttr:$kind, Lm_Tensor:$input);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = "$kind $input attr-dict `:` type($result)";
}

def Lm_ActivationGradOp : Lm_Op<"activation_grad", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface>, SameOperandsAndResultType]> {
  let summary = "the adjoint of an activation's input";
  let description = [{
    Example:

    ```mlir
    %du = lm.activation_grad gelu_tanh %da, %u : tensor<4x8x192xf32>
    ```
  }];
  let arguments = (ins Lm_ActivationAttr:$kind, Lm_Tensor:$adjoint, Lm_Tensor:$input);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = "$kind $adjoint `,` $input attr-dict `:` type($result)";
}

#endif
