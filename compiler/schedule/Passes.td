// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_COMPILER_SCHEDULE_PASSES_TD
#define FTLM_COMPILER_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def DistInlineLayers : Pass<"dist-inline-layers", "::mlir::ModuleOp"> {
  let summary = "puts the body of a layer class where it is called";
  let description = [{
    Expects that classes call no classes. Every op of an expanded class carries the number of its layer
    (`lm.layer`), which selects the members of families and the random sites. The classes go.

    Before:

    ```mlir
    %1 = lm.layer_call @block(%0) layer(3) : (t) -> t
    ```

    After:

    ```mlir
    %w = lm.use @"h.*.w" {lm.layer = 3 : i64} : tensor<48x48xf32>
    %1 = lm.linear %0, %w {lm.layer = 3 : i64} : t, tensor<48x48xf32> -> t
    ```
  }];
  let statistics = [Statistic<"calls", "calls", "layer calls expanded">];
}

def PlanLower : Pass<"plan-lower", "::mlir::ModuleOp"> {
  let summary = "turns programs on tensors into instructions on buffers";
  let description = [{
    Expects the form after `dist-inline-layers`. Parameter families become one parameter a layer; each op emits
    its instructions (`InstructionOpInterface`). A value gets a buffer of its own, or takes over that of an input
    which the kernel may overwrite and nothing reads later; the next value of a parameter lies where the parameter
    does. The micro-batches of a step become a loop, whose gradients go through `plan.accumulate` into the levels
    of a binary tree.

    Before:

    ```mlir
    %y = lm.linear %x, %w bias %b : tensor<4x8x48xf32>, tensor<48x192xf32>, tensor<192xf32> -> tensor<4x8x192xf32>
    ```

    After:

    ```mlir
    plan.gemm "h.0.mlp.c_fc" %x * %w + %b -> %y m 32 n 192 k 48 ld [48, 192, 192]
    ```
  }];
  let dependentDialects = ["::ftlm::planir::PlanDialect", "::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"instructions", "instructions", "instructions of all programs">,
                    Statistic<"inPlace", "in place", "values that took over an input's buffer">];
}

#endif
