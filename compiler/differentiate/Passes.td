// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_COMPILER_DIFFERENTIATE_PASSES_TD
#define FTLM_COMPILER_DIFFERENTIATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def LmPrograms : Pass<"lm-programs", "::mlir::ModuleOp"> {
  let summary = "makes the programs that run without random numbers";
  let description = [{
    Expects a program for the objective and, perhaps, one for generation, as the importer writes them. Adds
    `@evaluate`, which is the objective without random numbers, with layer classes of its own
    (`@block.evaluate`); takes the random numbers out of the program for generation and the classes it calls.
    Inputs that only random numbers needed go, too.

    Before:

    ```mlir
    lm.program objective @loss(...) { %1 = lm.layer_call @block(%0, %random, %examples) layer(0) ... }
    ```

    After:

    ```mlir
    lm.program objective @loss(...) { %1 = lm.layer_call @block(%0, %random, %examples) layer(0) ... }
    lm.program evaluate @evaluate(...) { %1 = lm.layer_call @block.evaluate(%0) layer(0) ... }
    ```
  }];
}

def LmDifferentiate : Pass<"lm-differentiate", "::mlir::ModuleOp"> {
  let summary = "turns the objective into its gradients";
  let description = [{
    Expects the program of the objective to return a sum of terms with the objective interface, and every op
    between the parameters and the loss to have the gradient interface. The program becomes `@gradients`, which
    returns the loss and the gradient of every use of a trainable parameter, in the order of the parameters; uses
    of one parameter stay apart, in the order of the forward pass. Each layer class is differentiated once:
    `@block.forward` returns the result and what the backward pass needs, `@block.backward` takes the adjoint of
    the result and those values and returns the adjoints of the inputs and the gradients of its weights.

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
    lm.layer_class @block.backward(%dy: t, %x: t) -> (t, tensor<48x48xf32>) {
      %w = lm.use @"h.*.w" : tensor<48x48xf32>
      %dx = lm.linear_data_grad %dy, %w : t, tensor<48x48xf32> -> t
      %dw = lm.linear_weight_grad %x, %dy : t, t -> tensor<48x48xf32>
      lm.return %dx, %dw : t, tensor<48x48xf32>
    }
    ```
  }];
  let statistics = [Statistic<"kept", "values kept", "values that layer classes keep for the backward pass">];
}

def LmStep : Pass<"lm-step", "::mlir::ModuleOp"> {
  let summary = "makes the program of a whole step";
  let description = [{
    Expects `@gradients`. Makes `@train_step` of it: the micro-batches of a step, whose gradients are summed
    (`lm.micro_batches`; with one micro-batch there is no loop), the sum over the uses of each parameter, the norm,
    the updates, and the values for the next step. Declares the moments that the rule needs (`lm.state`). A class
    `@update` updates the parameters of a layer.

    Before:

    ```mlir
    lm.program gradients @gradients(%tokens: ..., ...) -> (loss: tensor<f32>, "gradient/w": t) { ... }
    ```

    After:

    ```mlir
    lm.state @"moment1/w" of @w
    lm.program train @train_step(%tokens: ..., %hyper: tensor<8xf32>)
        -> (loss: tensor<4xf32>, grad_norm: tensor<f32>, "gradient/w": t) {
      %losses, %dw = lm.micro_batches count(4) slices(%tokens) collected(1) : ... { ... }
      %norm = lm.grad_norm %dw : t -> tensor<f32>
      %w = lm.use @w : t
      ...
      %w1, %m1, %v1 = lm.update adamw %w, %m, %v by %dw norm %norm hyper %hyper decay : t, t, t
      lm.assign @w, %w1 : t
      ...
    }
    ```
  }];
  let options = [Option<"rule", "rule", "std::string", "\"adamw\"",
                        "the update rule: adamw, adam_gpt1 or sgd">,
                 Option<"microBatches", "micro-batches", "int64_t", "1", "micro-batches of a step">];
}

#endif
