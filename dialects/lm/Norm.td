// SPDX-License-Identifier: Apache-2.0
// Normalisation of rows, and its gradients.
#ifndef FTLM_DIALECTS_LM_NORM_TD
#define FTLM_DIALECTS_LM_NORM_TD

include "dialects/lm/LmBase.td"

def Lm_NormOp : Lm_Op<"norm", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface, ["resultAccess", "reductions", "reductionTerm", "finishReduction"]>,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>]> {
  let summary = "normalises each row";
  let description = [{
    `layer_norm`: `(x - mean) * rstd * gain + bias` with `rstd = 1 / sqrt(variance + epsilon)` and
    the biased variance. `rms_norm`: `x * rstd * gain` with `rstd = 1 / sqrt(mean(x^2) + epsilon)`.
    The statistics are results since the gradient needs them; `mean` is 0 for `rms_norm`.

    Example:

    ```mlir
    %y, %mean, %rstd = lm.norm layer_norm %x gain %g bias %b epsilon(1.0e-05)
        : tensor<4x8x48xf32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Lm_NormKindAttr:$kind, Lm_Tensor:$input, Lm_Tensor:$gain,
      Optional<Lm_Tensor>:$bias, Lm_F64Attr:$epsilon);
  let results = (outs Lm_Tensor:$result, Lm_F32Tensor:$mean, Lm_F32Tensor:$rstd);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Lm_NormDataGradOp : Lm_Op<"norm_data_grad", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface, ["reductions", "reductionTerm"]>,
    AllTypesMatch<["adjoint", "input", "result"]>, AllTypesMatch<["mean", "rstd"]>]> {
  let summary = "the adjoint of a norm's input";
  let description = [{
    With `n = (x - mean) * rstd` and `d = adjoint * gain`: layer norm gives
    `rstd * (d - mean(d) - n * mean(d * n))`; RMS norm leaves out `mean(d)`.

    Example:

    ```mlir
    %dx = lm.norm_data_grad layer_norm %dy, %x, %gain, %mean, %rstd
        : tensor<4x8x48xf32>, tensor<48xf32>, tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Lm_NormKindAttr:$kind, Lm_Tensor:$adjoint, Lm_Tensor:$input,
      Lm_Tensor:$gain, Lm_F32Tensor:$mean, Lm_F32Tensor:$rstd);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $kind $adjoint `,` $input `,` $gain `,` $mean `,` $rstd attr-dict `:`
    type($result) `,` type($gain) `,` type($mean)
  }];
  let hasVerifier = 1;
}

def Lm_NormGainGradOp : Lm_Op<"norm_gain_grad", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface, ["resultAccess"]>,
    AllTypesMatch<["adjoint", "input"]>, AllTypesMatch<["mean", "rstd"]>]> {
  let summary = "the adjoint of a norm's gain: the sum over rows of `adjoint * n`";
  let description = [{
    `n = (x - mean) * rstd`. The adjoint of a norm's bias is `lm.bias_grad`. The order of the sum
    is that of `lm.bias_grad`.

    Example:

    ```mlir
    %dg = lm.norm_gain_grad %dy, %x, %mean, %rstd
        : tensor<4x8x48xf32>, tensor<4x8xf32> -> tensor<48xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$adjoint, Lm_Tensor:$input, Lm_F32Tensor:$mean,
      Lm_F32Tensor:$rstd);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $adjoint `,` $input `,` $mean `,` $rstd attr-dict `:` type($adjoint) `,` type($mean) `->`
    type($result)
  }];
  let hasVerifier = 1;
}

#endif
