// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_COMPILER_DIFFERENTIATE_PASSES_TD
#define FTLM_COMPILER_DIFFERENTIATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def LmPrograms : Pass<"lm-programs", "::mlir::ModuleOp"> {
  let summary = "makes the programs that run without dropout";
  let description = [{
    Expects `@loss` and, for generation, `@next_logits`, as the importer writes them. Adds `@evaluate`, which is
    `@loss` without dropout, with layer classes of its own (`@block.evaluate`); takes the dropout out of
    `@next_logits` and the classes it calls, and renames it `@generate`.

    Before:

    ```mlir
    lm.program @loss(...) { %1 = lm.layer_call @block(%0) layer(0) ... }
    ```

    After:

    ```mlir
    lm.program @loss(...) { %1 = lm.layer_call @block(%0) layer(0) ... }
    lm.program @evaluate(...) { %1 = lm.layer_call @block.evaluate(%0) layer(0) ... }
    ```
  }];
}

def LmDifferentiate : Pass<"lm-differentiate", "::mlir::ModuleOp"> {
  let summary = "turns @loss into @micro_batch: forward and backward pass";
  let description = [{
    Expects `@loss` to return a sum of weighted cross-entropies, and every op between the parameters and the loss
    to have the gradient interface. Each layer class is differentiated once: `@block.forward` returns the result
    and the values kept for the backward pass, `@block.backward` takes the adjoint of the result and those values
    and returns the adjoint of the input. Gradients of parameters go to `lm.accumulate_grad`. Uses of one
    parameter stay apart, numbered in the order of the forward pass. Guarantees that frozen parameters have no
    gradient ops.

    Before:

    ```mlir
    lm.layer_class @block(%x: t) -> t {
      %w = lm.use @"h.*.w" : tensor<48x48xf32>
      %y = lm.linear %x, %w : t, tensor<48x48xf32> -> t
      lm.return %y : t
    }
    ```

    After:

    ```mlir
    lm.layer_class @block.forward(%x: t) -> t { ... }
    lm.layer_class @block.backward(%dy: t, %x: t) -> t {
      %w = lm.use @"h.*.w" : tensor<48x48xf32>
      %dx = lm.linear_data_grad %dy, %w : t, tensor<48x48xf32> -> t
      %dw = lm.linear_weight_grad %x, %dy : t, t -> tensor<48x48xf32>
      lm.accumulate_grad @"h.*.w", %dw : tensor<48x48xf32>
      lm.return %dx : t
    }
    ```
  }];
  let statistics = [Statistic<"kept", "values kept", "values that layer classes keep for the backward pass">];
}

def LmOptimizer : Pass<"lm-optimizer", "::mlir::ModuleOp"> {
  let summary = "adds @update: the norm of the gradients and one update a parameter";
  let description = [{
    Frozen parameters get no update.

    Before:

    ```mlir
    lm.param @wte : tensor<97x48xf32> init #lm.init<normal, 2.0e-02> decay
    ```

    After, beside it:

    ```mlir
    lm.program @update() -> tensor<f32> {
      %norm = lm.grad_norm : tensor<f32>
      lm.update adamw @wte, %norm decay : tensor<f32>
      lm.return %norm : tensor<f32>
    }
    ```
  }];
  let options = [Option<"rule", "rule", "std::string", "\"adamw\"",
                        "the update rule: adamw, adam_gpt1 or sgd">];
}

#endif
