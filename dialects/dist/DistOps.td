// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_DIALECTS_DIST_DISTOPS_TD
#define FTLM_DIALECTS_DIST_DISTOPS_TD

include "dialects/lm/LmInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::ftlm::dist";
  let summary = "What one grid position computes";
  let description = [{
    The `dist` dialect stands between the model on whole tensors (`lm`) and the schedule (`plan`).
    Its tensors are those of one device. It groups the ops between matrix products and attention
    into kernels (`dist.kernel_group`), which code generation replaces by launches of generated
    functions (`dist.launch`).
  }];
}

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

def Dist_KernelGroupOp : Dist_Op<"kernel_group", [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "ops that one generated kernel computes";
  let description = [{
    The body holds `lm` ops over the same rows; block arguments stand for the operands. Values that
    stay inside the group are never in memory.

    Example:

    ```mlir
    %x1, %y, %mean, %rstd = dist.kernel_group "add_norm" (%x, %a, %g)
        : (tensor<4x8x48xf32>, tensor<4x8x48xf32>, tensor<48xf32>)
        -> (tensor<4x8x48xf32>, tensor<4x8x48xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
    ^bb0(%0: tensor<4x8x48xf32>, %1: tensor<4x8x48xf32>, %2: tensor<48xf32>):
      ...
      dist.yield ...
    }
    ```
  }];
  let arguments = (ins StrAttr:$label, Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $label `(` $inputs `)` attr-dict `:` functional-type($inputs, $results) $body
  }];
}

def Dist_YieldOp : Dist_Op<"yield", [Pure, Terminator, ReturnLike,
    ParentOneOf<["KernelGroupOp"]>]> {
  let summary = "ends a kernel group";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let builders = [OpBuilder<(ins), [{ (void)$_builder; (void)$_state; }]>];
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
}

def Dist_LaunchOp : Dist_Op<"launch", [Pure, DeclareOpInterfaceMethods<Lm_InstructionOpInterface>]> {
  let summary = "runs a generated kernel";
  let description = [{
    The function `kernel` lies in the nested module `@kernels`. Its arguments are the buffers of the
    inputs, then of the results. `units` independent pieces of work, of which a thread
    should get `grain` or more. `in_place[i]` is the input whose buffer result i may take over when
    nothing reads that input afterwards, or -1. With `sites` the kernel gets one scalar, the base of
    its random sites: 16 * (layer + 1) in a layer class, 0 outside (`lm::globalSite`).

    Example:

    ```mlir
    %y = dist.launch @bias_gelu_0(%u, %b) units(64) grain(4) in_place [0]
        : (tensor<4x8x192xf32>, tensor<192xf32>) -> tensor<4x8x192xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, StrAttr:$label,
      Variadic<AnyRankedTensor>:$inputs, I64Attr:$units, I64Attr:$grain, UnitAttr:$sites,
      OptionalAttr<DenseI64ArrayAttr>:$in_place);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $kernel $label `(` $inputs `)` `units` `(` $units `)` `grain` `(` $grain `)`
    (`sites` $sites^)? (`in_place` $in_place^)? attr-dict `:`
    functional-type($inputs, $results)
  }];
}

#endif
