// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_COMPILER_INTERPRET_PASSES_TD
#define FTLM_COMPILER_INTERPRET_PASSES_TD

include "mlir/Pass/PassBase.td"

def LmInterpret : Pass<"lm-interpret", "::mlir::ModuleOp"> {
  let summary = "runs a program in float64 on random values and prints its results";
  let description = [{
    Parameters and inputs are a function of (seed, name) alone, so that a module can be compared with what a pass made
    of it: float inputs are uniform in -1 to 1, parameters lie within 0.25 of their initial constant or of 0, integers
    are valid indices for what they index. `random` is {seed, 0}, `examples` counts from 0, `hyper` is that of a first
    step, and the states of the optimizer are 0. The option may name a layer class, too. Each result is printed to standard output with its type, its first eight
    elements, their sum and a hash of all elements, taken of six significant digits. The module stays as it is.

    Example: `ftlm-opt --lm-interpret="program=twice seed=1" -o /dev/null` on

    ```mlir
    lm.layer_class @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = lm.add %x, %x : tensor<2xf32>
      lm.return %y : tensor<2xf32>
    }
    ```

    prints a line of the form

    ```
    @twice result 0: tensor<2xf32> [NUMBER, NUMBER] sum NUMBER hash HASH
    ```
  }];
  let options = [
    Option<"program", "program", "std::string", "\"loss\"", "the program to run">,
    Option<"seed", "seed", "uint64_t", "0", "the seed of parameters, inputs and random sites">];
}

#endif
