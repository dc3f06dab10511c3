// SPDX-License-Identifier: Apache-2.0
// Gathering rows of tables, and their gradients.
#ifndef FTLM_DIALECTS_LM_EMBEDDING_TD
#define FTLM_DIALECTS_LM_EMBEDDING_TD

include "dialects/lm/LmBase.td"

def Lm_EmbeddingOp : Lm_Op<"embedding", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface>,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>]> {
  let summary = "gathers the rows of tokens and adds those of positions";
  let description = [{
    `result[b, t, :] = table[tokens[b, t], :] + positions[offset + t, :]`; without positions the
    second term is missing. Table and positions may be the same value (GPT-1's joint table).

    Example:

    ```mlir
    %x = lm.embedding %tokens, %wte positions %wpe offset(0)
        : tensor<4x8xi32>, tensor<97x48xf32>, tensor<32x48xf32> -> tensor<4x8x48xf32>
    ```
  }];
  let arguments = (ins Lm_IdTensor:$tokens, Lm_Tensor:$table, Optional<Lm_Tensor>:$positions,
      DefaultValuedAttr<Lm_I64Attr, "0">:$offset);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $tokens `,` $table (`positions` $positions^ `offset` `(` $offset `)`)? attr-dict `:`
    type($tokens) `,` type($table) (`,` type($positions)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_TakePositionOp : Lm_Op<"take_position", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface>,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>]> {
  let summary = "one position of each sequence";
  let description = [{
    `result[b, :] = input[b, positions[b], :]`.

    Example:

    ```mlir
    %h = lm.take_position %x, %positions
        : tensor<4x8x48xf32>, tensor<4xi32> -> tensor<4x48xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$input, Lm_IdTensor:$positions);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $positions attr-dict `:` type($input) `,` type($positions) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_EmbeddingGradOp : Lm_Op<"embedding_grad", [Pure, DeclareOpInterfaceMethods<Lm_KernelOpInterface>]> {
  let summary = "scatters adjoints into the rows of their tokens";
  let description = [{
    `result[v, :] = sum over (b, t) with tokens[b, t] = v of adjoint[b, t, :]`, in the order of
    (b, t); rows of absent tokens are 0.

    Example:

    ```mlir
    %dwte = lm.embedding_grad %tokens, %dx
        : tensor<4x8xi32>, tensor<4x8x48xf32> -> tensor<97x48xf32>
    ```
  }];
  let arguments = (ins Lm_IdTensor:$tokens, Lm_Tensor:$adjoint);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $tokens `,` $adjoint attr-dict `:` type($tokens) `,` type($adjoint) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_PositionGradOp : Lm_Op<"position_grad", [Pure, DeclareOpInterfaceMethods<Lm_KernelOpInterface>]> {
  let summary = "sums adjoints over the examples into the rows of their positions";
  let description = [{
    `result[offset + t, :] = sum over b of adjoint[b, t, :]`, in the order of b; other rows are 0.

    Example:

    ```mlir
    %dwpe = lm.position_grad %dx offset(0) : tensor<4x8x48xf32> -> tensor<32x48xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$adjoint, Lm_I64Attr:$offset);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $adjoint `offset` `(` $offset `)` attr-dict `:` type($adjoint) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_TakePositionGradOp : Lm_Op<"take_position_grad", [Pure, DeclareOpInterfaceMethods<Lm_RowKernelOpInterface>]> {
  let summary = "the adjoint of `lm.take_position`'s input: 0 but at the positions taken";
  let description = [{
    Example:

    ```mlir
    %dx = lm.take_position_grad %dh, %positions
        : tensor<4x48xf32>, tensor<4xi32> -> tensor<4x8x48xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$adjoint, Lm_IdTensor:$positions);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $adjoint `,` $positions attr-dict `:` type($adjoint) `,` type($positions) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif
