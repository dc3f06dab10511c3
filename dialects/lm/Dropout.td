// SPDX-License-Identifier: Apache-2.0
// Random masks.
#ifndef FTLM_DIALECTS_LM_DROPOUT_TD
#define FTLM_DIALECTS_LM_DROPOUT_TD

include "dialects/lm/LmBase.td"

def Lm_DropoutOp : Lm_Op<"dropout", [Pure, AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<Lm_RandomOpInterface>, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface, ["drawsRandom"]>,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>]> {
  let summary = "sets elements to zero at random and scales the others by 1 / (1 - rate)";
  let description = [{
    Whether element e of example g is kept is a function of (seed, step, site, g, e): Philox4x32-10
    with key = seed and counter = (e / 4, g, step, site) gives word w = e mod 4, and the element is
    kept when `(w >> 8) * 2^-24 >= rate`. Dimension 0 of the operand counts the examples of the
    micro-batch, whose global numbers are in `examples`; without `examples` the operand has no
    example dimension, and g is 0: one mask for the whole step. `random` is {seed, step}. The gradient is the same op on the adjoint.

    Example:

    ```mlir
    %y = lm.dropout %x rate(0.1) site(1) random %random, %examples
        : tensor<4x8x48xf32>, tensor<2xi64>, tensor<4xi32>
    %t = lm.dropout %we rate(0.1) site(0) random %random : tensor<112x48xf32>, tensor<2xi64>
    ```
  }];
  let arguments = (ins Lm_Tensor:$input, Lm_F64Attr:$rate, Lm_I64Attr:$site,
      Lm_RandomTensor:$random, Optional<Lm_IdTensor>:$examples);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $input `rate` `(` custom<BareF64>($rate) `)` `site` `(` $site `)` `random` $random
    (`,` $examples^)? attr-dict `:` type($result) `,` type($random) (`,` type($examples)^)?
  }];
  let hasVerifier = 1;
}

#endif
