// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_COMPILER_FUSE_PASSES_TD
#define FTLM_COMPILER_FUSE_PASSES_TD

include "mlir/Pass/PassBase.td"

def DistFuse : Pass<"dist-fuse", "::mlir::ModuleOp"> {
  let summary = "groups the ops between matrix products and attention into kernels";
  let description = [{
    Works on the bodies of programs and layer classes. An op over rows joins an earlier group over the same rows and
    columns when it shares a value with it and all its operands are known where the group stands: it then moves up
    to the group. Other generated ops become groups of their own. Afterwards every op that needs a generated
    kernel is in a group.

    Before:

    ```mlir
    %1 = lm.add %x, %a : tensor<4x8x48xf32>
    %y, %mean, %rstd = lm.norm layer_norm %1 gain %g epsilon(1.0e-05) : tensor<4x8x48xf32> -> tensor<4x8xf32>
    ```

    After:

    ```mlir
    %1:4 = dist.kernel_group "add+norm" (%x, %a, %g) : ... { ... }
    ```
  }];
  let statistics = [Statistic<"groups", "groups", "kernel groups made">,
                    Statistic<"fused", "fused ops", "ops that joined another op's group">];
  let dependentDialects = ["::ftlm::dist::DistDialect"];
}

#endif
