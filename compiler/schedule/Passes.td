// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_COMPILER_SCHEDULE_PASSES_TD
#define FTLM_COMPILER_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanLower : Pass<"plan-lower", "::mlir::ModuleOp"> {
  let summary = "turns programs on tensors into instructions on buffers";
  let description = [{
    Expects the form after `dist-outline-kernels`. Layer calls are expanded, parameter families become one
    parameter a layer, matrix products, attention and launches become instructions. A value gets a buffer of its
    own, or takes over that of an input which the kernel may overwrite and nothing reads later. With one
    micro-batch a step, gradients are written where the update reads them; with several they go through
    `plan.accumulate` into the levels of a binary tree, whose rest the update adds up.

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
