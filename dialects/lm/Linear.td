// SPDX-License-Identifier: Apache-2.0
// Matrix products with weights, and their gradients.
#ifndef FTLM_DIALECTS_LM_LINEAR_TD
#define FTLM_DIALECTS_LM_LINEAR_TD

include "dialects/lm/LmBase.td"

def Lm_LinearOp : Lm_Op<"linear", [Pure, DeclareOpInterfaceMethods<Lm_InstructionOpInterface>,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>,
    DeclareOpInterfaceMethods<Lm_CostOpInterface, ["getFlops"]>]> {
  let summary = "a matrix product with a weight, and a bias";
  let description = [{
    `result = x * weight + bias` with weight `[in, out]`; with `transposed` the weight is
    `[rows, in]`, rows >= out, and its first `out` rows are used: the output projection with the
    embedding table. Leading dimensions of x are kept.

    Example:

    ```mlir
    %u = lm.linear %x, %w bias %b
        : tensor<4x8x48xf32>, tensor<48x192xf32>, tensor<192xf32> -> tensor<4x8x192xf32>
    %logits = lm.linear %h, %wte transposed
        : tensor<4x8x48xf32>, tensor<97x48xf32> -> tensor<4x8x97xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$input, Lm_Tensor:$weight, Optional<Lm_Tensor>:$bias,
      UnitAttr:$transposed);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? (`transposed` $transposed^)? attr-dict `:`
    type($input) `,` type($weight) (`,` type($bias)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_LinearDataGradOp : Lm_Op<"linear_data_grad", [Pure, DeclareOpInterfaceMethods<Lm_InstructionOpInterface>,
    DeclareOpInterfaceMethods<Lm_CostOpInterface, ["getFlops"]>]> {
  let summary = "the adjoint of a linear op's input: `adjoint * weight^T`";
  let description = [{
    With `transposed` the weight is `[rows, in]` and the product is with its first `out` rows.

    Example:

    ```mlir
    %dx = lm.linear_data_grad %du, %w
        : tensor<4x8x192xf32>, tensor<48x192xf32> -> tensor<4x8x48xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$adjoint, Lm_Tensor:$weight, UnitAttr:$transposed);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $adjoint `,` $weight (`transposed` $transposed^)? attr-dict `:`
    type($adjoint) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_LinearWeightGradOp : Lm_Op<"linear_weight_grad", [Pure, DeclareOpInterfaceMethods<Lm_InstructionOpInterface>,
    DeclareOpInterfaceMethods<Lm_CostOpInterface, ["getFlops"]>]> {
  let summary = "the adjoint of a linear op's weight: `input^T * adjoint`";
  let description = [{
    With `transposed` it is `adjoint^T * input`, shape `[rows, in]`; rows after `out` are 0.

    Example:

    ```mlir
    %dw = lm.linear_weight_grad %x, %du
        : tensor<4x8x48xf32>, tensor<4x8x192xf32> -> tensor<48x192xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$input, Lm_Tensor:$adjoint, UnitAttr:$transposed);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $adjoint (`transposed` $transposed^)? attr-dict `:`
    type($input) `,` type($adjoint) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_BiasGradOp : Lm_Op<"bias_grad", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface, ["resultAccess"]>]> {
  let summary = "the sum of a tensor over all but its last dimension";
  let description = [{
    Rows are summed in order within blocks of 64, then the blocks in order.

    Example:

    ```mlir
    %db = lm.bias_grad %du : tensor<4x8x192xf32> -> tensor<192xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$adjoint);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = "$adjoint attr-dict `:` type($adjoint) `->` type($result)";
  let hasVerifier = 1;
}

#endif
