// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_COMPILER_CODEGEN_PASSES_TD
#define FTLM_COMPILER_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def DistOutlineKernels : Pass<"dist-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "writes a kernel for each group and launches it";
  let description = [{
    Expects kernel groups as `dist-fuse` makes them. Each becomes a `dist.launch` of a function in the nested
    module `@kernels`; groups that do the same share one. A sum over rows becomes two launches: partial rows a
    block of 64, then their sum.

    Before:

    ```mlir
    %db = dist.kernel_group "bias_grad" (%du) : (tensor<4x8x192xf32>) -> tensor<192xf32> { ... }
    ```

    After:

    ```mlir
    %p = dist.launch @bias_grad_0 "bias_grad" (%du) units(1) grain(1) : (tensor<4x8x192xf32>) -> tensor<1x192xf32>
    %db = dist.launch @column_sum_1 "column_sum" (%p) units(3) grain(4) : (tensor<1x192xf32>) -> tensor<192xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"kernels", "kernels", "kernels written">];
}

#endif
