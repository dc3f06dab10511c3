// SPDX-License-Identifier: Apache-2.0
// What a step does: micro-batches, the norm of the gradients, updates.
#ifndef FTLM_DIALECTS_LM_STATE_TD
#define FTLM_DIALECTS_LM_STATE_TD

include "dialects/lm/LmBase.td"

def Lm_StateOp : Lm_Op<"state", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "declares a tensor of the optimizer that belongs to a parameter";
  let description = [{
    Of the parameter's shape, for each member of a family; 0 before the first step. Checkpoints keep
    it beside the parameters. `lm.use` reads it and `lm.assign` writes it.

    Example:

    ```mlir
    lm.state @"moment1/h.*.ln_1.weight" of @"h.*.ln_1.weight"
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$param);
  let assemblyFormat = "$sym_name `of` $param attr-dict";
}

def Lm_AssignOp : Lm_Op<"assign", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    MemoryEffects<[MemWrite]>]> {
  let summary = "gives a parameter or a state its value for the next step";
  let description = [{
    Example:

    ```mlir
    lm.assign @"h.*.ln_1.weight", %new : tensor<48xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$target, Lm_Tensor:$value);
  let assemblyFormat = "$target `,` $value attr-dict `:` type($value)";
}

def Lm_MicroBatchesOp : Lm_Op<"micro_batches", [RecursiveMemoryEffects,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "runs the body for each micro-batch of a step";
  let description = [{
    Dimension 0 of the operands counts the micro-batches; the body sees one of them. The first
    `collected` values that it yields are put behind one another, `[count, ...]`. Each of the others
    is summed over the micro-batches in a binary tree over their global numbers: with t the number
    of trailing one bits of g, the value of g is added to the open sums of levels 0 to t - 1, level
    first, and becomes the open sum of level t; after the last one the open sums are added, lowest
    level first. So the result does not depend on how the micro-batches are spread over replicas
    (docs/sums.md).

    Example:

    ```mlir
    %losses, %dw = lm.micro_batches count(4) slices(%tokens) collected(1)
        : (tensor<4x2x8xi32>) -> (tensor<4xf32>, tensor<48x48xf32>) {
    ^bb0(%t: tensor<2x8xi32>):
      ...
      lm.yield %loss, %g : tensor<f32>, tensor<48x48xf32>
    }
    ```
  }];
  let arguments = (ins Lm_I64Attr:$count, Variadic<AnyRankedTensor>:$slices, Lm_I64Attr:$collected);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `count` `(` $count `)` `slices` `(` $slices `)` `collected` `(` $collected `)` attr-dict `:`
    functional-type($slices, $results) $body
  }];
  let hasVerifier = 1;
}

def Lm_YieldOp : Lm_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["MicroBatchesOp"]>]> {
  let summary = "ends the body of micro-batches";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let builders = [OpBuilder<(ins), [{ (void)$_builder; (void)$_state; }]>];
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
}

def Lm_GradNormOp : Lm_Op<"grad_norm", [Pure, DeclareOpInterfaceMethods<Lm_InstructionOpInterface>]> {
  let summary = "the Euclidean norm of all gradients of a step, each unique parameter once";
  let description = [{
    Squares are summed in fp32 within chunks of 4,096 elements of each tensor (16 lanes, folded in
    halves), and the chunks in fp64, in the order of the operands.

    Example:

    ```mlir
    %norm = lm.grad_norm %dw, %db : tensor<48x48xf32>, tensor<48xf32> -> tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<Lm_F32Tensor>:$gradients);
  let results = (outs Lm_F32Tensor:$result);
  let assemblyFormat = "$gradients attr-dict `:` type($gradients) `->` type($result)";
  let hasVerifier = 1;
}

def Lm_UpdateOp : Lm_Op<"update", [Pure, DeclareOpInterfaceMethods<Lm_KernelOpInterface, ["kernelKey", "inPlaceOperand"]>]> {
  let summary = "the next value of a parameter and of its moments";
  let description = [{
    The gradient is first scaled by `min(1, clip / norm)`. `hyper` is {lr, beta1, beta2, eps, decay,
    clip, 1 - beta1^t, 1 - beta2^t}, an input that changes from step to step; clip 0 means none.
    With `decay` the rule's weight decay applies.

    - `adamw`: `p *= 1 - lr * decay; m, v <- moving averages of g, g^2; p -= lr * (m / (1 - b1^t)) /
      (sqrt(v / (1 - b2^t)) + eps)`
    - `adam_gpt1`: `p -= a * (m / (sqrt(v) + eps) + decay * p)` with `a = lr * sqrt(1 - b2^t) /
      (1 - b1^t)`
    - `sgd`: `p -= lr * (g + decay * p)`; it has no moments

    Example:

    ```mlir
    %p1, %m1, %v1 = lm.update adamw %p, %m, %v by %g norm %norm hyper %hyper decay
        : tensor<48x48xf32>, tensor<48x48xf32>, tensor<48x48xf32>
    ```
  }];
  let arguments = (ins Lm_OptimizerAttr:$rule, Variadic<Lm_F32Tensor>:$state, Lm_F32Tensor:$gradient,
      Lm_F32Tensor:$norm, Lm_F32Tensor:$hyper, UnitAttr:$decay);
  let results = (outs Variadic<Lm_F32Tensor>:$results);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

#endif
