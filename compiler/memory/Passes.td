// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_COMPILER_MEMORY_PASSES_TD
#define FTLM_COMPILER_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanMemory : Pass<"plan-memory", "::mlir::ModuleOp"> {
  let summary = "gives every buffer its place in the arena";
  let description = [{
    Buffers of the module come first, one after the other. Buffers of a program share the rest: they live from the
    first instruction that touches them to the last (through the whole of a loop that carries them), and those of different programs may lie in the same place,
    since programs run one after the other. Adds `plan.arena`.

    Before:

    ```mlir
    %0 = plan.buffer "layer 0: attention" activation : tensor<4x8x48xf32>
    ```

    After:

    ```mlir
    plan.arena bytes(1048576) lower_bound(1048576)
    %0 = plan.buffer "layer 0: attention" activation at 524288 : tensor<4x8x48xf32>
    ```
  }];
  let statistics = [Statistic<"buffers", "buffers", "buffers placed">];
}

#endif
