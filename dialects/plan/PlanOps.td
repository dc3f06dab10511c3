// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_DIALECTS_PLAN_PLANOPS_TD
#define FTLM_DIALECTS_PLAN_PLANOPS_TD

include "dialects/lm/LmAttributes.td"
include "dialects/plan/PlanDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

def Plan_Buffer : TypeDef<Plan_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a region of the arena";
}

def Plan_BufferClassAttr : EnumAttr<Plan_Dialect, Plan_BufferClass, "class">;

//===----------------------------------------------------------------------===//
// Memory and parameters
//===----------------------------------------------------------------------===//

def Plan_ArenaOp : Plan_Op<"arena"> {
  let summary = "the arena of the device";
  let description = [{
    `lower_bound` is the largest sum of bytes live at one time: no packing can do with less.

    Example:

    ```mlir
    plan.arena bytes(1048576) lower_bound(1048576)
    ```
  }];
  let arguments = (ins Lm_I64Attr:$bytes, Lm_I64Attr:$lower_bound);
  let assemblyFormat = "`bytes` `(` $bytes `)` `lower_bound` `(` $lower_bound `)` attr-dict";
}

def Plan_BufferOp : Plan_Op<"buffer"> {
  let summary = "a buffer";
  let description = [{
    In the module a buffer lives for ever; in a program from the first instruction that touches it to the last.

    Example:

    ```mlir
    %0 = plan.buffer "h.0.ln_1.weight" parameter at 4096 : tensor<48xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, Plan_BufferClassAttr:$buffer_class, TypeAttr:$type,
      OptionalAttr<Lm_I64Attr>:$offset);
  let results = (outs Plan_Buffer:$result);
  let assemblyFormat = "$name $buffer_class (`at` $offset^)? `:` $type attr-dict";
}

def Plan_ViewOp : Plan_Op<"view"> {
  let summary = "a part of a buffer";
  let description = [{
    Example:

    ```mlir
    %1 = plan.view %0 "partials/wte" byte 128 : tensor<2xf32>
    ```
  }];
  let arguments = (ins Plan_Buffer:$source, StrAttr:$name, Lm_I64Attr:$byte, TypeAttr:$type);
  let results = (outs Plan_Buffer:$result);
  let assemblyFormat = "$source $name `byte` $byte `:` $type attr-dict";
}

def Plan_ParameterOp : Plan_Op<"parameter"> {
  let summary = "one parameter of the model: its name in checkpoints and where its state lies";
  let description = [{
    Example:

    ```mlir
    plan.parameter "h.0.ln_1.weight" value %0 moments %2, %3 : tensor<48xf32> init <constant, 1.0>
    ```
  }];
  let arguments = (ins StrAttr:$name, Plan_Buffer:$value, Variadic<Plan_Buffer>:$moments,
      TypeAttr:$type, Lm_InitAttr:$init, UnitAttr:$decay, UnitAttr:$frozen,
      OptionalAttr<Lm_I64Attr>:$view, OptionalAttr<Lm_StoredArrayAttr>:$stored);
  let assemblyFormat = [{
    $name `value` $value (`moments` $moments^)? `:` $type `init` $init
    (`decay` $decay^)? (`frozen` $frozen^)? (`view` `(` $view^ `)`)? (`stored` $stored^)? attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Programs and instructions
//===----------------------------------------------------------------------===//

def Plan_InputKindAttr : EnumAttr<Plan_Dialect, Plan_InputKind, "input">;
def Plan_OutputKindAttr : EnumAttr<Plan_Dialect, Plan_OutputKind, "output">;

def Plan_ProgramOp : Plan_Op<"program", [Symbol, NoTerminator, SingleBlock]> {
  let summary = "instructions that run in order on a stream";
  let description = [{
    What the host fills before the program runs and reads after it is said by `plan.input` and `plan.output`.

    Example:

    ```mlir
    plan.program evaluate @evaluate time(24) stream("compute") { ... }
    ```
  }];
  let arguments = (ins Lm_PurposeAttr:$purpose, SymbolNameAttr:$sym_name, Lm_I64Attr:$time, StrAttr:$stream);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $purpose $sym_name `time` `(` $time `)` `stream` `(` $stream `)` attr-dict-with-keyword $body
  }];
}

def Plan_InputOp : Plan_Op<"input"> {
  let summary = "a buffer that the host fills before the program runs";
  let description = [{
    Example:

    ```mlir
    plan.input tokens %0
    ```
  }];
  let arguments = (ins Plan_InputKindAttr:$kind, Plan_Buffer:$buffer);
  let assemblyFormat = "$kind $buffer attr-dict";
}

def Plan_OutputOp : Plan_Op<"output"> {
  let summary = "a buffer that the host reads after the program has run";
  let description = [{
    Example:

    ```mlir
    plan.output loss %0
    plan.output gradient of "h.0.ln_1.weight" %1
    ```
  }];
  let arguments = (ins Plan_OutputKindAttr:$kind, OptionalAttr<StrAttr>:$parameter, Plan_Buffer:$buffer);
  let assemblyFormat = "$kind (`of` $parameter^)? $buffer attr-dict";
}

def Plan_LoopOp : Plan_Op<"loop", [NoTerminator, SingleBlock]> {
  let summary = "runs its instructions several times";
  let description = [{
    Copies with steps and accumulations in it depend on the round, which is the global number of the micro-batch.
    Loops do not nest.

    Example:

    ```mlir
    plan.loop "micro-batches" count(4) {
      plan.copy "tokens" %all -> %tokens source_step 192
      ...
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Lm_I64Attr:$count);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name `count` `(` $count `)` attr-dict-with-keyword $body";
}

def Plan_KernelOp : Plan_Op<"kernel"> {
  let summary = "runs a generated kernel";
  let description = [{
    `writes` are the numbers of the arguments that are written, the others are read; a buffer that is both
    stands twice. `scalars` are passed by value.

    Example:

    ```mlir
    plan.kernel "h.0.gelu" @activation_3(%u, %a) writes [1] units 32 grain 1
    ```
  }];
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$kernel, Variadic<Plan_Buffer>:$arguments,
      DenseI64ArrayAttr:$writes, Lm_I64Attr:$units, Lm_I64Attr:$grain,
      OptionalAttr<DenseI64ArrayAttr>:$scalars);
  let assemblyFormat = [{
    $name $kernel `(` $arguments `)` `writes` $writes `units` $units `grain` $grain
    (`scalars` $scalars^)? attr-dict
  }];
}

def Plan_GemmOp : Plan_Op<"gemm"> {
  let summary = "a matrix product";
  let description = [{
    `c[m, n] = a[m, k] * b[k, n] + bias[n]`, row-major with leading dimensions; `transpose_a`: a is stored [k, m],
    `transpose_b`: b is stored [n, k].

    Example:

    ```mlir
    plan.gemm "h.0.mlp.c_fc" %x * %w + %b -> %u m 32 n 192 k 48 ld [48, 192, 192]
    ```
  }];
  let arguments = (ins StrAttr:$name, Plan_Buffer:$a, Plan_Buffer:$b, Optional<Plan_Buffer>:$bias,
      Plan_Buffer:$c, Lm_I64Attr:$m, Lm_I64Attr:$n, Lm_I64Attr:$k, DenseI64ArrayAttr:$ld,
      UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let assemblyFormat = [{
    $name $a `*` $b (`+` $bias^)? `->` $c `m` $m `n` $n `k` $k `ld` $ld
    (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? attr-dict
  }];
}

class Plan_AttentionBase<string mnemonic, dag buffers> : Plan_Op<mnemonic> {
  dag sizes = (ins Lm_I64Attr:$batch, Lm_I64Attr:$time, Lm_I64Attr:$heads, Lm_I64Attr:$kv_heads,
      Lm_I64Attr:$head_size, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides, Lm_F64Attr:$scale,
      OptionalAttr<Lm_F64Attr>:$dropout, OptionalAttr<Lm_I64Attr>:$site, Variadic<Plan_Buffer>:$random);
  let arguments = !con((ins StrAttr:$name), buffers, sizes);
}

def Plan_AttentionOp : Plan_AttentionBase<"attention", (ins Plan_Buffer:$q, Plan_Buffer:$k, Plan_Buffer:$v,
    Plan_Buffer:$out, Plan_Buffer:$lse, Plan_Buffer:$workspace)> {
  let summary = "causal attention (`lm.attention`)";
  let description = [{
    Queries, keys and values lie at `offsets` of their buffers, a position every `strides` elements. `random` are
    the inputs `random` and `examples`, with dropout.

    Example:

    ```mlir
    plan.attention "layer 0: attention" %qkv, %qkv, %qkv -> %o, %lse using %w batch 4 time 8 heads 4 of 4 size 12
        at [0, 48, 96] every [144, 144, 144] scale 2.886751e-01
    ```
  }];
  let assemblyFormat = [{
    $name $q `,` $k `,` $v `->` $out `,` $lse `using` $workspace `batch` $batch `time` $time `heads` $heads
    `of` $kv_heads `size` $head_size `at` $offsets `every` $strides `scale` $scale
    (`dropout` $dropout^ `site` $site `random` $random)? attr-dict
  }];
}

def Plan_AttentionGradOp : Plan_AttentionBase<"attention_grad", (ins Plan_Buffer:$d_out, Plan_Buffer:$q,
    Plan_Buffer:$k, Plan_Buffer:$v, Plan_Buffer:$out, Plan_Buffer:$lse, Plan_Buffer:$d_q, Plan_Buffer:$d_k,
    Plan_Buffer:$d_v, Plan_Buffer:$workspace)> {
  let summary = "the gradient of causal attention (`lm.attention_grad`)";
  let assemblyFormat = [{
    $name $d_out `,` $q `,` $k `,` $v `,` $out `,` $lse `->` $d_q `,` $d_k `,` $d_v `using` $workspace
    `batch` $batch `time` $time `heads` $heads `of` $kv_heads `size` $head_size `at` $offsets `every` $strides
    `scale` $scale (`dropout` $dropout^ `site` $site `random` $random)? attr-dict
  }];
}

def Plan_CopyOp : Plan_Op<"copy"> {
  let summary = "copies the bytes of the smaller of two buffers";
  let description = [{
    In round g of a loop from byte g * `source_step` to byte g * `destination_step`.

    Example:

    ```mlir
    plan.copy "loss" %loss -> %losses destination_step 4
    ```
  }];
  let arguments = (ins StrAttr:$name, Plan_Buffer:$source, Plan_Buffer:$destination,
      OptionalAttr<Lm_I64Attr>:$source_step, OptionalAttr<Lm_I64Attr>:$destination_step);
  let assemblyFormat = [{
    $name $source `->` $destination (`source_step` $source_step^)? (`destination_step` $destination_step^)?
    attr-dict
  }];
}

def Plan_ZeroOp : Plan_Op<"zero"> {
  let summary = "sets a buffer to zero";
  let arguments = (ins StrAttr:$name, Plan_Buffer:$buffer);
  let assemblyFormat = "$name $buffer attr-dict";
}

def Plan_AccumulateOp : Plan_Op<"accumulate"> {
  let summary = "adds the value of a micro-batch to the binary tree over the micro-batches of a step";
  let description = [{
    With t trailing ones in the global number g of the micro-batch: source is added to levels 0 to t - 1 (level
    first), then stored to level t. `add` is a kernel (lhs, rhs, result). What is read of a level was written in an
    earlier round, so the levels count as written only; they live through the loop.

    Example:

    ```mlir
    plan.accumulate "h.0.ln_1.weight" %g to (%l0, %l1) @add units 48
    ```
  }];
  let arguments = (ins StrAttr:$name, Plan_Buffer:$source, Variadic<Plan_Buffer>:$levels,
      FlatSymbolRefAttr:$add, Lm_I64Attr:$units);
  let assemblyFormat = "$name $source `to` `(` $levels `)` $add `units` $units attr-dict";
}

#endif
