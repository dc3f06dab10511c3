// SPDX-License-Identifier: Apache-2.0
// The objective: cross-entropy, and sums over everything.
#ifndef FTLM_DIALECTS_LM_LOSS_TD
#define FTLM_DIALECTS_LM_LOSS_TD

include "dialects/lm/LmBase.td"

def Lm_CrossEntropyOp : Lm_Op<"cross_entropy", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface, ["resultAccess", "reductions", "reductionTerm", "finishReduction"]>,
    DeclareOpInterfaceMethods<Lm_ObjectiveOpInterface>]> {
  let summary = "the weighted cross-entropy of each row of logits";
  let description = [{
    `losses[r] = weights[r] * (lse[r] - logits[r, targets[r]])` with `lse` the logarithm of the
    row's sum of exponentials. A row of weight 0 counts nothing, whatever its target.

    Example:

    ```mlir
    %losses, %lse = lm.cross_entropy %logits, %targets, %weights
        : tensor<4x8x97xf32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$logits, Lm_IdTensor:$targets, Lm_F32Tensor:$weights);
  let results = (outs Lm_F32Tensor:$losses, Lm_F32Tensor:$lse);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Lm_SumOp : Lm_Op<"sum", [Pure, DeclareOpInterfaceMethods<Lm_KernelOpInterface>]> {
  let summary = "the sum of all elements";
  let description = [{
    The order of the sum is fixed: 16 lanes, folded in halves.

    Example:

    ```mlir
    %loss = lm.sum %losses : tensor<4x8xf32> -> tensor<f32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$input);
  let results = (outs Lm_F32Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Lm_CrossEntropyGradOp : Lm_Op<"cross_entropy_grad", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface>]> {
  let summary = "the adjoint of the logits: `weight * (softmax - one-hot of the target)`";
  let description = [{
    The adjoint of each row's loss is 1: the whole objective is in the weights.

    Example:

    ```mlir
    %dlogits = lm.cross_entropy_grad %logits, %lse, %targets, %weights
        : tensor<4x8x97xf32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$logits, Lm_F32Tensor:$lse, Lm_IdTensor:$targets,
      Lm_F32Tensor:$weights);
  let results = (outs Lm_Tensor:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

#endif
