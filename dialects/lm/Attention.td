// SPDX-License-Identifier: Apache-2.0
// Causal self-attention, and its gradient.
#ifndef FTLM_DIALECTS_LM_ATTENTION_TD
#define FTLM_DIALECTS_LM_ATTENTION_TD

include "dialects/lm/LmBase.td"

class Lm_AttentionBase<string mnemonic, list<Trait> traits> : Lm_Op<mnemonic, !listconcat([Pure,
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<Lm_InstructionOpInterface>,
    DeclareOpInterfaceMethods<Lm_CostOpInterface, ["getFlops"]>], traits)> {
  let hasVerifier = 1;
}

def Lm_AttentionOp : Lm_AttentionBase<"attention", [DeclareOpInterfaceMethods<Lm_GradientOpInterface>,
    DeclareOpInterfaceMethods<Lm_RandomOpInterface>]> {
  let summary = "causal self-attention";
  let description = [{
    Queries `[B, T, heads * D]`, keys and values `[B, T, kv_heads * D]`; without `keys` the queries,
    keys and values of all heads lie behind one another in `queries`,
    `[B, T, (heads + 2 kv_heads) * D]`. Query head h reads key head `h / (heads / kv_heads)`. Scores
    are `scale * q . k`; position t sees positions <= t; a softmax follows, then dropout of the
    probabilities with rate `dropout` at random site `site` (element (h * T + t) * T + s of the
    example), then the weighted sum of values. `lse` is the logarithm of each row's sum of
    exponentials, which the gradient needs.

    Example:

    ```mlir
    %o, %lse = lm.attention %qkv heads(4) kv_heads(4) scale(0.288675)
        : (tensor<4x8x144xf32>) -> (tensor<4x8x48xf32>, tensor<4x4x8xf32>)
    %o, %lse = lm.attention %q, %k, %v heads(6) kv_heads(2) scale(0.353553) dropout(0.1) site(0)
        random %random, %examples
        : (tensor<4x8x48xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<2xi64>, tensor<4xi32>)
        -> (tensor<4x8x48xf32>, tensor<4x6x8xf32>)
    ```
  }];
  let arguments = (ins Lm_Tensor:$queries, Optional<Lm_Tensor>:$keys, Optional<Lm_Tensor>:$values,
      Lm_I64Attr:$heads, Lm_I64Attr:$kv_heads, Lm_F64Attr:$scale, OptionalAttr<Lm_F64Attr>:$dropout,
      OptionalAttr<Lm_I64Attr>:$site, Optional<Lm_RandomTensor>:$random, Optional<Lm_IdTensor>:$examples);
  let results = (outs Lm_Tensor:$result, Lm_F32Tensor:$lse);
  let assemblyFormat = [{
    $queries (`,` $keys^ `,` $values)? `heads` `(` $heads `)` `kv_heads` `(` $kv_heads `)`
    `scale` `(` custom<BareF64>($scale) `)`
    (`dropout` `(` custom<BareF64>($dropout)^ `)` `site` `(` $site `)` `random` $random `,` $examples)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Lm_AttentionGradOp : Lm_AttentionBase<"attention_grad", [AllTypesMatch<["adjoint", "output"]>]> {
  let summary = "the adjoints of attention's queries, keys and values";
  let description = [{
    Computes the probabilities again, block by block, from the operands of the forward op and `lse`.
    One result where queries, keys and values are one tensor, three where they are three.

    Example:

    ```mlir
    %dqkv = lm.attention_grad %do, %o, %lse of %qkv heads(4) kv_heads(4) scale(0.288675)
        : (tensor<4x8x48xf32>, tensor<4x8x48xf32>, tensor<4x4x8xf32>, tensor<4x8x144xf32>)
        -> tensor<4x8x144xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$adjoint, Lm_Tensor:$output, Lm_F32Tensor:$lse, Lm_Tensor:$queries,
      Optional<Lm_Tensor>:$keys, Optional<Lm_Tensor>:$values, Lm_I64Attr:$heads, Lm_I64Attr:$kv_heads,
      Lm_F64Attr:$scale, OptionalAttr<Lm_F64Attr>:$dropout, OptionalAttr<Lm_I64Attr>:$site,
      Optional<Lm_RandomTensor>:$random, Optional<Lm_IdTensor>:$examples);
  let results = (outs Variadic<Lm_Tensor>:$results);
  let assemblyFormat = [{
    $adjoint `,` $output `,` $lse `of` $queries (`,` $keys^ `,` $values)?
    `heads` `(` $heads `)` `kv_heads` `(` $kv_heads `)` `scale` `(` custom<BareF64>($scale) `)`
    (`dropout` `(` custom<BareF64>($dropout)^ `)` `site` `(` $site `)` `random` $random `,` $examples)?
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif
