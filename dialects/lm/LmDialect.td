// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_DIALECTS_LM_LMDIALECT_TD
#define FTLM_DIALECTS_LM_LMDIALECT_TD

include "mlir/IR/DialectBase.td"

def Lm_Dialect : Dialect {
  let name = "lm";
  let cppNamespace = "::ftlm::lm";
  let summary = "A transformer language model on whole tensors";
  let description = [{
    The `lm` dialect says what a model computes, on whole (global) tensors and for one
    micro-batch, and nothing about devices, memory or order. A module holds

    - the parameters (`lm.param`), with the checkpoint's names; one op declares the same tensor of
      all layers, as a *family* whose name has `*` where the layer's number stands;
    - *layer classes* (`lm.layer_class`): the body of a decoder layer, written once and called once
      per layer (`lm.layer_call`), so that analyses and rewrites cost the same for 12 layers as
      for 96;
    - *programs* (`lm.program`): what is run, each for a purpose. The importer writes the objective
      and, for generation, the logits of the next token; passes make the other programs from them.

    Random numbers are counted, not drawn: an op with random numbers names a *site*, and which
    elements it keeps is a function of (seed, step, site, global example, element) alone; seed and
    step, and the numbers of the examples, are operands.

    Activations are `tensor<B x T x C>`: B sequences, T positions, C channels. Weights are stored
    `[in, out]`, as GPT-1 and GPT-2 checkpoints do.
  }];
  let useDefaultAttributePrinterParser = 1;
}

#endif
