// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_DIALECTS_LM_LMOPS_TD
#define FTLM_DIALECTS_LM_LMOPS_TD

include "dialects/lm/LmAttributes.td"
include "dialects/lm/LmInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Lm_Op<string mnemonic, list<Trait> traits = []> : Op<Lm_Dialect, mnemonic, traits>;

def Lm_Float : AnyTypeOf<[F32, BF16, F16]>;
def Lm_Tensor : StaticShapeTensorOf<[Lm_Float]>;
def Lm_F32Tensor : StaticShapeTensorOf<[F32]>;
def Lm_IdTensor : StaticShapeTensorOf<[I32]>;

//===----------------------------------------------------------------------===//
// The frame: parameters, layer classes, programs
//===----------------------------------------------------------------------===//

def Lm_ParamOp : Lm_Op<"param", [Symbol]> {
  let summary = "declares a parameter, or the same parameter of every layer";
  let description = [{
    With `layers(n)` the op declares a family of n tensors of one shape; the name holds a `*` where
    the number of the layer stands. `decay` marks tensors that weight decay applies to. `stored`
    tells how a checkpoint file names it, when not by its own name. `view` is the number of leading
    rows that take part in the model (GPT-1's table with fewer positions than stored).

    Example:

    ```mlir
    lm.param @transformer.wte.weight : tensor<50257x768xf32> init #lm.init<normal, 2.0e-02> decay
    lm.param @"transformer.h.*.ln_1.weight" layers(12) : tensor<768xf32> init #lm.init<constant, 1.0>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Lm_Tensor>:$type,
      OptionalAttr<Lm_I64Attr>:$layers, Lm_InitAttr:$init, UnitAttr:$decay, UnitAttr:$frozen,
      OptionalAttr<Lm_StoredArrayAttr>:$stored, OptionalAttr<Lm_I64Attr>:$view);
  let assemblyFormat = [{
    $sym_name (`layers` `(` $layers^ `)`)? `:` $type `init` $init (`decay` $decay^)?
    (`frozen` $frozen^)? (`view` `(` $view^ `)`)? (`stored` $stored^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Lm_UseOp : Lm_Op<"use", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "the value of a parameter";
  let description = [{
    In a layer class the parameter is a family and the value is that of the calling layer.

    Example:

    ```mlir
    %ln_1.weight = lm.use @"transformer.h.*.ln_1.weight" : tensor<768xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$param);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = "$param attr-dict `:` type($result)";
}

def Lm_LayerClassOp : Lm_Op<"layer_class", [IsolatedFromAbove, AutomaticAllocationScope,
    FunctionOpInterface, OpAsmOpInterface]> {
  let summary = "the body of a layer, written once";
  let description = [{
    Takes and returns tensors; parameters are read inside by `lm.use` of a family. The names of the
    arguments in the text are kept (`argument_names`).

    Example:

    ```mlir
    lm.layer_class @block(%x: tensor<4x512x768xf32>) -> tensor<4x512x768xf32> {
      %w = lm.use @"h.*.ln_1.weight" : tensor<768xf32>
      ...
      lm.return %y : tensor<4x512x768xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      StrArrayAttr:$argument_names, OptionalAttr<DictArrayAttr>:$arg_attrs,
      OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    void getAsmBlockArgumentNames(::mlir::Region &, ::mlir::OpAsmSetValueNameFn setName);
  }];
}

def Lm_LayerCallOp : Lm_Op<"layer_call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a layer class for one layer";
  let description = [{
    `layer(i)` selects the members of the parameter families and the random sites.

    Example:

    ```mlir
    %x1 = lm.layer_call @block(%x0) layer(0) : (tensor<4x512x768xf32>) -> tensor<4x512x768xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$inputs, Lm_I64Attr:$layer);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $callee `(` $inputs `)` `layer` `(` $layer `)` attr-dict `:` functional-type($inputs, $results)
  }];
}

def Lm_ProgramOp : Lm_Op<"program", [IsolatedFromAbove, AutomaticAllocationScope,
    FunctionOpInterface, OpAsmOpInterface]> {
  let summary = "what a step runs, on one micro-batch";
  let description = [{
    The names of the arguments are the names under which the runtime fills them: `tokens`,
    `targets` (i32 [B, T]), `weights` (f32 [B, T], the weight of each target in the whole
    objective), `positions` (i32 [B]).

    Example:

    ```mlir
    lm.program @loss(%tokens: tensor<4x512xi32>, %targets: tensor<4x512xi32>,
                     %weights: tensor<4x512xf32>) -> tensor<f32> {
      ...
      lm.return %loss : tensor<f32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      StrArrayAttr:$argument_names, OptionalAttr<DictArrayAttr>:$arg_attrs,
      OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    void getAsmBlockArgumentNames(::mlir::Region &, ::mlir::OpAsmSetValueNameFn setName);
  }];
}

def Lm_ReturnOp : Lm_Op<"return", [Pure, Terminator, ReturnLike,
    ParentOneOf<["LayerClassOp", "ProgramOp"]>]> {
  let summary = "ends a layer class or a program";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Forward ops
//===----------------------------------------------------------------------===//

def Lm_EmbeddingOp : Lm_Op<"embedding", [Pure,
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

def Lm_LinearOp : Lm_Op<"linear", [Pure,
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

def Lm_NormOp : Lm_Op<"norm", [Pure,
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

def Lm_ActivationOp : Lm_Op<"activation", [Pure, SameOperandsAndResultType,
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

def Lm_AttentionOp : Lm_Op<"attention", [Pure,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>,
    DeclareOpInterfaceMethods<Lm_CostOpInterface, ["getFlops"]>]> {
  let summary = "causal self-attention on packed queries, keys and values";
  let description = [{
    `qkv` holds, along its last dimension, the queries of `heads` heads, then the keys and the
    values of `kv_heads` heads, each of size D; query head h reads key head
    `h / (heads / kv_heads)`. Scores are `scale * q . k`; position t sees positions <= t; a softmax
    follows, then dropout of the probabilities with rate `dropout` at random site `site` (element
    (h * T + t) * T + s of the example), then the weighted sum of values. `lse` is the logarithm of
    each row's sum of exponentials, which the gradient needs.

    Example:

    ```mlir
    %o, %lse = lm.attention %qkv heads(4) kv_heads(4) scale(0.288675) dropout(0.1) site(0)
        : tensor<4x8x144xf32> -> tensor<4x8x48xf32>, tensor<4x4x8xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$qkv, Lm_I64Attr:$heads, Lm_I64Attr:$kv_heads, Lm_F64Attr:$scale,
      OptionalAttr<Lm_F64Attr>:$dropout, OptionalAttr<Lm_I64Attr>:$site);
  let results = (outs Lm_Tensor:$result, Lm_F32Tensor:$lse);
  let assemblyFormat = [{
    $qkv `heads` `(` $heads `)` `kv_heads` `(` $kv_heads `)` `scale` `(` custom<BareF64>($scale) `)`
    (`dropout` `(` custom<BareF64>($dropout)^ `)` `site` `(` $site `)`)? attr-dict `:`
    type($qkv) `->` type($result) `,` type($lse)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getHeadSize() {
      return getQkv().getType().getShape().back() / (getHeads() + 2 * getKvHeads());
    }
  }];
}

def Lm_DropoutOp : Lm_Op<"dropout", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<Lm_GradientOpInterface>]> {
  let summary = "sets elements to zero at random and scales the others by 1 / (1 - rate)";
  let description = [{
    Whether element e of example g is kept is a function of (seed, step, site, g, e): Philox4x32-10
    with key = seed and counter = (e / 4, g, step, site) gives word w = e mod 4, and the element is
    kept when `(w >> 8) * 2^-24 >= rate`. Dimension 0 of the operand counts the examples of the
    micro-batch; with `table` the operand has no example dimension, and g is 0: one mask for the
    whole step. The gradient is the same op on the adjoint.

    Example:

    ```mlir
    %y = lm.dropout %x rate(0.1) site(1) : tensor<4x8x48xf32>
    %t = lm.dropout %we rate(0.1) site(0) table : tensor<112x48xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$input, Lm_F64Attr:$rate, Lm_I64Attr:$site, UnitAttr:$table);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $input `rate` `(` custom<BareF64>($rate) `)` `site` `(` $site `)` (`table` $table^)? attr-dict
    `:` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_AddOp : Lm_Op<"add", [Pure, Commutative, SameOperandsAndResultType,
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

def Lm_TakePositionOp : Lm_Op<"take_position", [Pure,
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

def Lm_CrossEntropyOp : Lm_Op<"cross_entropy", [Pure]> {
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

def Lm_SumOp : Lm_Op<"sum", [Pure]> {
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

//===----------------------------------------------------------------------===//
// Gradient ops: made by the differentiation pass
//===----------------------------------------------------------------------===//

def Lm_EmbeddingGradOp : Lm_Op<"embedding_grad", [Pure]> {
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

def Lm_PositionGradOp : Lm_Op<"position_grad", [Pure]> {
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

def Lm_LinearDataGradOp : Lm_Op<"linear_data_grad", [Pure,
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

def Lm_LinearWeightGradOp : Lm_Op<"linear_weight_grad", [Pure,
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

def Lm_BiasGradOp : Lm_Op<"bias_grad", [Pure]> {
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

def Lm_NormDataGradOp : Lm_Op<"norm_data_grad", [Pure,
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

def Lm_NormGainGradOp : Lm_Op<"norm_gain_grad", [Pure,
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

def Lm_ActivationGradOp : Lm_Op<"activation_grad", [Pure, SameOperandsAndResultType]> {
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

def Lm_AttentionGradOp : Lm_Op<"attention_grad", [Pure,
    AllTypesMatch<["adjoint", "output"]>, AllTypesMatch<["qkv", "result"]>,
    DeclareOpInterfaceMethods<Lm_CostOpInterface, ["getFlops"]>]> {
  let summary = "the adjoint of attention's packed queries, keys and values";
  let description = [{
    Computes the probabilities again, block by block, from `qkv` and `lse`.

    Example:

    ```mlir
    %dqkv = lm.attention_grad %do, %qkv, %o, %lse heads(4) kv_heads(4) scale(0.288675)
        : tensor<4x8x48xf32>, tensor<4x8x144xf32>, tensor<4x4x8xf32>
    ```
  }];
  let arguments = (ins Lm_Tensor:$adjoint, Lm_Tensor:$qkv, Lm_Tensor:$output, Lm_F32Tensor:$lse,
      Lm_I64Attr:$heads, Lm_I64Attr:$kv_heads, Lm_F64Attr:$scale, OptionalAttr<Lm_F64Attr>:$dropout,
      OptionalAttr<Lm_I64Attr>:$site);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = [{
    $adjoint `,` $qkv `,` $output `,` $lse `heads` `(` $heads `)` `kv_heads` `(` $kv_heads `)`
    `scale` `(` custom<BareF64>($scale) `)`
    (`dropout` `(` custom<BareF64>($dropout)^ `)` `site` `(` $site `)`)? attr-dict `:`
    type($output) `,` type($qkv) `,` type($lse)
  }];
  let hasVerifier = 1;
}

def Lm_TakePositionGradOp : Lm_Op<"take_position_grad", [Pure]> {
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

def Lm_CrossEntropyGradOp : Lm_Op<"cross_entropy_grad", [Pure]> {
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

def Lm_AccumulateGradOp : Lm_Op<"accumulate_grad",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemWrite]>]> {
  let summary = "adds one micro-batch's gradient to a parameter's";
  let description = [{
    The gradient of a step is the sum over its micro-batches, in a binary tree over their global
    numbers. A parameter with several uses (a tied table) has one op for each, told apart by
    `use(k)`: each use is summed over the micro-batches by itself, and the uses are added once, in
    the order of k, so that the result does not depend on which rank holds which use.

    Example:

    ```mlir
    lm.accumulate_grad @"h.*.attn.c_attn.weight", %dw : tensor<48x144xf32>
    lm.accumulate_grad @wte, %dtable use(1) : tensor<97x48xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, Lm_Tensor:$gradient,
      DefaultValuedAttr<Lm_I64Attr, "0">:$use);
  let assemblyFormat = "$param `,` $gradient (`use` `(` $use^ `)`)? attr-dict `:` type($gradient)";
  let hasVerifier = 1;
}

def Lm_GradNormOp : Lm_Op<"grad_norm", [MemoryEffects<[MemRead]>]> {
  let summary = "the Euclidean norm of all gradients of the step, each unique parameter once";
  let description = [{
    Squares are summed in fp32 within chunks of 4,096 elements of each tensor (16 lanes, folded in
    halves), and the chunks in fp64, in the order of the parameters.

    Example:

    ```mlir
    %norm = lm.grad_norm : tensor<f32>
    ```
  }];
  let results = (outs Lm_F32Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Lm_UpdateOp : Lm_Op<"update", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "updates a parameter (all members of a family) from its gradient";
  let description = [{
    The gradient is first scaled by `min(1, clip / norm)`. Learning rate, decay and clip are inputs
    of the program that change from step to step (`hyper`). With `decay` the rule's weight decay
    applies.

    - `adamw`: `p *= 1 - lr * decay; m, v <- moving averages of g, g^2; p -= lr * (m / (1 - b1^t)) /
      (sqrt(v / (1 - b2^t)) + eps)`
    - `adam_gpt1`: `p -= a * (m / (sqrt(v) + eps) + decay * p)` with `a = lr * sqrt(1 - b2^t) /
      (1 - b1^t)`
    - `sgd`: `p -= lr * (g + decay * p)`

    Example:

    ```mlir
    lm.update adamw @"h.*.ln_1.weight", %norm
    lm.update adamw @wte, %norm decay
    ```
  }];
  let arguments = (ins Lm_OptimizerAttr:$rule, FlatSymbolRefAttr:$param, Lm_F32Tensor:$norm,
      UnitAttr:$decay);
  let assemblyFormat = [{
    $rule $param `,` $norm (`decay` $decay^)? attr-dict `:` type($norm)
  }];
  let hasVerifier = 1;
}

#endif
