// SPDX-License-Identifier: Apache-2.0
// Each refusal of the lm dialect's verifiers, with its whole message.
// RUN: ftlm-opt %s --split-input-file --verify-diagnostics

// family_without_layers
// expected-error@+1 {{'lm.param' op has a '*' in its name but no layers(n)}}
lm.param @"h.*.w" : tensor<4x4xf32> init <normal, 2.0e-02>

// -----

// layers_without_family
// expected-error@+1 {{'lm.param' op has layers(n) but no '*' in its name}}
lm.param @w layers(2) : tensor<4x4xf32> init <normal, 2.0e-02>

// -----

// no_layers
// expected-error@+1 {{'lm.param' op has 0 layers; expected 1 or more}}
lm.param @"h.*.w" layers(0) : tensor<4x4xf32> init <normal, 2.0e-02>

// -----

// scalar_parameter
// expected-error@+1 {{'lm.param' op has rank 0; expected rank 1 or more}}
lm.param @w : tensor<f32> init <constant, 0.0>

// -----

// view_of_too_many_rows
// expected-error@+1 {{'lm.param' op has a view of 5 rows of 4}}
lm.param @w : tensor<4x4xf32> init <normal, 2.0e-02> view(5)

// -----

// stored_pieces_with_a_gap
// expected-error@+1 {{'lm.param' op has a stored piece 'b' at row 3; expected row 2}}
lm.param @w : tensor<4x4xf32> init <normal, 2.0e-02> stored [#lm.stored<"a", 0, 2>, #lm.stored<"b", 3, 1>]

// -----

// stored_pieces_too_few
// expected-error@+1 {{'lm.param' op has stored pieces of 3 rows in all; expected 4}}
lm.param @w : tensor<4x4xf32> init <normal, 2.0e-02> stored [#lm.stored<"a", 0, 3>]

// -----

// stored_name_of_a_family
// expected-error@+1 {{'lm.param' op has a stored piece 'a' without a '*'}}
lm.param @"h.*.w" layers(2) : tensor<4x4xf32> init <normal, 2.0e-02> stored [#lm.stored<"a", 0, 4>]

// -----

// use_of_nothing
lm.program objective @p() -> () {
  // expected-error@+1 {{'lm.use' op refers to @w, which is no lm.param and no lm.state}}
  %0 = lm.use @w : tensor<4x4xf32>
  lm.return
}

// -----

// use_of_another_type
lm.param @w : tensor<4x4xf32> init <normal, 2.0e-02>
lm.program objective @p() -> () {
  // expected-error@+1 {{'lm.use' op has type 'tensor<4x5xf32>', but @w is declared 'tensor<4x4xf32>'}}
  %0 = lm.use @w : tensor<4x5xf32>
  lm.return
}

// -----

// family_outside_a_layer
lm.param @"h.*.w" layers(2) : tensor<4x4xf32> init <normal, 2.0e-02>
lm.program objective @p() -> () {
  // expected-error@+1 {{'lm.use' op outside a layer class refers to the family @"h.*.w"}}
  %0 = lm.use @"h.*.w" : tensor<4x4xf32>
  lm.return
}

// -----

// no_family_in_a_layer
lm.param @w : tensor<4x4xf32> init <normal, 2.0e-02>
lm.layer_class @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'lm.use' op in a layer class refers to @w, which is no family of layers}}
  %0 = lm.use @w : tensor<4x4xf32>
  lm.return %x : tensor<4xf32>
}

// -----

// call_of_nothing
lm.program objective @p(%tokens: tensor<4xf32>) -> () {
  // expected-error@+1 {{'lm.layer_call' op calls @block, which is no lm.layer_class}}
  %0 = lm.layer_call @block(%tokens) layer(0) : (tensor<4xf32>) -> tensor<4xf32>
  lm.return
}

// -----

// call_of_another_type
lm.layer_class @block(%tokens: tensor<4xf32>) -> tensor<4xf32> {
  lm.return %tokens : tensor<4xf32>
}
lm.program objective @p(%tokens: tensor<5xf32>) -> () {
  // expected-error@+1 {{'lm.layer_call' op has type '(tensor<5xf32>) -> tensor<5xf32>', but @block is '(tensor<4xf32>) -> tensor<4xf32>'}}
  %0 = lm.layer_call @block(%tokens) layer(0) : (tensor<5xf32>) -> tensor<5xf32>
  lm.return
}

// -----

// call_of_a_layer_too_many
lm.param @"h.*.b" layers(2) : tensor<4xf32> init <constant, 0.0>
lm.layer_class @block(%tokens: tensor<4xf32>) -> tensor<4xf32> {
  %b = lm.use @"h.*.b" : tensor<4xf32>
  %0 = lm.add %tokens, %b : tensor<4xf32>
  lm.return %0 : tensor<4xf32>
}
lm.program objective @p(%tokens: tensor<4xf32>) -> () {
  // expected-error@+1 {{'lm.layer_call' op runs layer 2, but @"h.*.b" has layers 0 to 1}}
  %0 = lm.layer_call @block(%tokens) layer(2) : (tensor<4xf32>) -> tensor<4xf32>
  lm.return
}

// -----

// return_of_another_type
lm.program objective @p(%tokens: tensor<4xf32>) -> (loss: tensor<5xf32>) {
  // expected-error@+1 {{'lm.return' op returns ('tensor<4xf32>'), but p declares ('tensor<5xf32>')}}
  lm.return %tokens : tensor<4xf32>
}

// -----

// embedding_result
lm.layer_class @p(%t: tensor<4x8xi32>, %w: tensor<97x48xf32>) {
  // expected-error@+1 {{'lm.embedding' op has a result of shape [4, 8, 47]; expected [4, 8, 48]}}
  %0 = lm.embedding %t, %w : tensor<4x8xi32>, tensor<97x48xf32> -> tensor<4x8x47xf32>
  lm.return
}

// -----

// embedding_ranks
lm.layer_class @p(%t: tensor<8xi32>, %w: tensor<97x48xf32>) {
  // expected-error@+1 {{'lm.embedding' op expects tokens of rank 2 and a table of rank 2}}
  %0 = lm.embedding %t, %w : tensor<8xi32>, tensor<97x48xf32> -> tensor<4x8x48xf32>
  lm.return
}

// -----

// embedding_positions
lm.layer_class @p(%t: tensor<4x8xi32>, %w: tensor<97x48xf32>, %p: tensor<8x48xf32>) {
  // expected-error@+1 {{'lm.embedding' op needs rows 1 to 9 of width 48 for its positions, found 'tensor<8x48xf32>'}}
  %0 = lm.embedding %t, %w positions %p offset(1) : tensor<4x8xi32>, tensor<97x48xf32>, tensor<8x48xf32> -> tensor<4x8x48xf32>
  lm.return
}

// -----

// linear_input
lm.layer_class @p(%x: tensor<4x8x48xf32>, %w: tensor<47x9xf32>) {
  // expected-error@+1 {{'lm.linear' op has an input of width 48, but a weight for 47}}
  %0 = lm.linear %x, %w : tensor<4x8x48xf32>, tensor<47x9xf32> -> tensor<4x8x9xf32>
  lm.return
}

// -----

// linear_result
lm.layer_class @p(%x: tensor<4x8x48xf32>, %w: tensor<48x9xf32>) {
  // expected-error@+1 {{'lm.linear' op has a result of width 8, but a weight for 9}}
  %0 = lm.linear %x, %w : tensor<4x8x48xf32>, tensor<48x9xf32> -> tensor<4x8x8xf32>
  lm.return
}

// -----

// linear_transposed_result
lm.layer_class @p(%x: tensor<4x8x48xf32>, %w: tensor<9x48xf32>) {
  // expected-error@+1 {{'lm.linear' op has a result of width 10, but a weight for 9}}
  %0 = lm.linear %x, %w transposed : tensor<4x8x48xf32>, tensor<9x48xf32> -> tensor<4x8x10xf32>
  lm.return
}

// -----

// linear_rows
lm.layer_class @p(%x: tensor<4x8x48xf32>, %w: tensor<48x9xf32>) {
  // expected-error@+1 {{'lm.linear' op has result rows of shape [8, 4]; expected [4, 8]}}
  %0 = lm.linear %x, %w : tensor<4x8x48xf32>, tensor<48x9xf32> -> tensor<8x4x9xf32>
  lm.return
}

// -----

// linear_weight
lm.layer_class @p(%x: tensor<4x8x48xf32>, %w: tensor<48xf32>) {
  // expected-error@+1 {{'lm.linear' op expects a weight of rank 2 and tensors of rank 1 or more}}
  %0 = lm.linear %x, %w : tensor<4x8x48xf32>, tensor<48xf32> -> tensor<4x8x9xf32>
  lm.return
}

// -----

// linear_bias
lm.layer_class @p(%x: tensor<4x8x48xf32>, %w: tensor<48x9xf32>, %b: tensor<8xf32>) {
  // expected-error@+1 {{'lm.linear' op has a bias of shape [8]; expected [9]}}
  %0 = lm.linear %x, %w bias %b : tensor<4x8x48xf32>, tensor<48x9xf32>, tensor<8xf32> -> tensor<4x8x9xf32>
  lm.return
}

// -----

// norm_kind
lm.layer_class @p(%x: tensor<4x8x48xf32>, %g: tensor<48xf32>) {
  // expected-error@+1 {{expected layer_norm or rms_norm, found batch_norm}}
  %0:3 = lm.norm batch_norm %x gain %g epsilon(1.0e-05) : tensor<4x8x48xf32> -> tensor<4x8xf32>
  lm.return
}

// -----

// norm_statistics
lm.layer_class @p(%x: tensor<4x8x48xf32>, %g: tensor<48xf32>) {
  // expected-error@+1 {{'lm.norm' op has a mean of shape [8]; expected [4, 8]}}
  %0:3 = lm.norm rms_norm %x gain %g epsilon(1.0e-05) : tensor<4x8x48xf32> -> tensor<8xf32>
  lm.return
}

// -----

// rms_norm_with_bias
lm.layer_class @p(%x: tensor<4x8x48xf32>, %g: tensor<48xf32>) {
  // expected-error@+1 {{'lm.norm' op of kind rms_norm has no bias}}
  %0:3 = lm.norm rms_norm %x gain %g bias %g epsilon(1.0e-05) : tensor<4x8x48xf32> -> tensor<4x8xf32>
  lm.return
}

// -----

// norm_epsilon
lm.layer_class @p(%x: tensor<4x8x48xf32>, %g: tensor<48xf32>) {
  // expected-error@+1 {{'lm.norm' op needs an epsilon above 0}}
  %0:3 = lm.norm layer_norm %x gain %g bias %g epsilon(0.0) : tensor<4x8x48xf32> -> tensor<4x8xf32>
  lm.return
}

// -----

// attention_heads
lm.layer_class @p(%q: tensor<4x8x144xf32>) {
  // expected-error@+1 {{'lm.attention' op expects queries of rank 3 and heads that are a multiple of kv_heads; found 4 and 3}}
  %0:2 = lm.attention %q heads(4) kv_heads(3) scale(0.5) : (tensor<4x8x144xf32>) -> (tensor<4x8x48xf32>, tensor<4x4x8xf32>)
  lm.return
}

// -----

// attention_width
lm.layer_class @p(%q: tensor<4x8x144xf32>) {
  // expected-error@+1 {{'lm.attention' op cannot cut a width of 144 into 5 queries and 2 x 5 keys and values}}
  %0:2 = lm.attention %q heads(5) kv_heads(5) scale(0.5) : (tensor<4x8x144xf32>) -> (tensor<4x8x48xf32>, tensor<4x5x8xf32>)
  lm.return
}

// -----

// attention_output
lm.layer_class @p(%q: tensor<4x8x144xf32>) {
  // expected-error@+1 {{'lm.attention' op has an output of shape [4, 8, 47]; expected [4, 8, 48]}}
  %0:2 = lm.attention %q heads(4) kv_heads(4) scale(0.5) : (tensor<4x8x144xf32>) -> (tensor<4x8x47xf32>, tensor<4x4x8xf32>)
  lm.return
}

// -----

// attention_lse
lm.layer_class @p(%q: tensor<4x8x144xf32>) {
  // expected-error@+1 {{'lm.attention' op has an lse of shape [4, 8, 4]; expected [4, 4, 8]}}
  %0:2 = lm.attention %q heads(4) kv_heads(4) scale(0.5) : (tensor<4x8x144xf32>) -> (tensor<4x8x48xf32>, tensor<4x8x4xf32>)
  lm.return
}

// -----

// attention_site_without_dropout
lm.layer_class @p(%q: tensor<4x8x144xf32>) {
  // expected-error@+1 {{'lm.attention' op needs dropout, site, random and examples together, or none of them}}
  %0:2 = lm.attention %q heads(4) kv_heads(4) scale(0.5) {site = 1 : i64} : (tensor<4x8x144xf32>) -> (tensor<4x8x48xf32>, tensor<4x4x8xf32>)
  lm.return
}

// -----

// dropout_rate
lm.layer_class @p(%x: tensor<4x8x48xf32>, %r: tensor<2xi64>) {
  // expected-error@+1 {{'lm.dropout' op has a dropout rate of 1.000000e+00; expected 0 <= rate < 1}}
  %0 = lm.dropout %x rate(1.0) site(1) random %r : tensor<4x8x48xf32>, tensor<2xi64>
  lm.return
}

// -----

// dropout_site
lm.layer_class @p(%x: tensor<4x8x48xf32>, %r: tensor<2xi64>) {
  // expected-error@+1 {{'lm.dropout' op has random site 16; expected 0 to 15}}
  %0 = lm.dropout %x rate(0.1) site(16) random %r : tensor<4x8x48xf32>, tensor<2xi64>
  lm.return
}

// -----

// dropout_of_a_scalar
lm.layer_class @p(%x: tensor<f32>, %r: tensor<2xi64>) {
  // expected-error@+1 {{'lm.dropout' op has an input of rank 0; expected rank 1 or more}}
  %0 = lm.dropout %x rate(0.1) site(1) random %r : tensor<f32>, tensor<2xi64>
  lm.return
}

// -----

// take_position_rank
lm.layer_class @p(%x: tensor<4x8xf32>, %p: tensor<4xi32>) {
  // expected-error@+1 {{'lm.take_position' op expects an input of rank 3}}
  %0 = lm.take_position %x, %p : tensor<4x8xf32>, tensor<4xi32> -> tensor<4x48xf32>
  lm.return
}

// -----

// take_position_positions
lm.layer_class @p(%x: tensor<4x8x48xf32>, %p: tensor<3xi32>) {
  // expected-error@+1 {{'lm.take_position' op has positions of shape [3]; expected [4]}}
  %0 = lm.take_position %x, %p : tensor<4x8x48xf32>, tensor<3xi32> -> tensor<4x48xf32>
  lm.return
}

// -----

// take_position_result
lm.layer_class @p(%x: tensor<4x8x48xf32>, %p: tensor<4xi32>) {
  // expected-error@+1 {{'lm.take_position' op has a result of shape [4, 8]; expected [4, 48]}}
  %0 = lm.take_position %x, %p : tensor<4x8x48xf32>, tensor<4xi32> -> tensor<4x8xf32>
  lm.return
}

// -----

// cross_entropy_rows
lm.layer_class @p(%l: tensor<4x8x97xf32>, %t: tensor<4xi32>, %w: tensor<4xf32>) {
  // expected-error@+1 {{'lm.cross_entropy' op has targets, weights, losses or lse of shape [4]; expected [4, 8]}}
  %0:2 = lm.cross_entropy %l, %t, %w : tensor<4x8x97xf32> -> tensor<4xf32>
  lm.return
}

// -----

// sum_result
lm.layer_class @p(%x: tensor<4x8x48xf32>) {
  // expected-error@+1 {{'lm.sum' op has a result of shape [1]; expected []}}
  %0 = lm.sum %x : tensor<4x8x48xf32> -> tensor<1xf32>
  lm.return
}

// -----

// dynamic_shape
lm.layer_class @p(%x: tensor<?xf32>) {
  // expected-error@+1 {{'lm.add' op operand #0 must be statically shaped tensor of 32-bit float or bfloat16 type or 16-bit float values, but got 'tensor<?xf32>'}}
  %0 = lm.add %x, %x : tensor<?xf32>
  lm.return
}

// -----

// embedding_grad_adjoint
lm.layer_class @p(%t: tensor<4x8xi32>, %x: tensor<4x8x48xf32>) {
  // expected-error@+1 {{'lm.embedding_grad' op has an adjoint of shape [4, 8, 48]; expected [4, 8, 47]}}
  %0 = lm.embedding_grad %t, %x : tensor<4x8xi32>, tensor<4x8x48xf32> -> tensor<97x47xf32>
  lm.return
}

// -----

// position_grad_rows
lm.layer_class @p(%x: tensor<4x8x48xf32>) {
  // expected-error@+1 {{'lm.position_grad' op fills rows 2 to 10 of width 48, but its result is 'tensor<9x48xf32>'}}
  %0 = lm.position_grad %x offset(2) : tensor<4x8x48xf32> -> tensor<9x48xf32>
  lm.return
}

// -----

// linear_data_grad_weight
lm.layer_class @p(%x: tensor<4x8x10xf32>, %w: tensor<48x9xf32>) {
  // expected-error@+1 {{'lm.linear_data_grad' op has a weight for widths 48 to 9; expected 48 to 10}}
  %0 = lm.linear_data_grad %x, %w : tensor<4x8x10xf32>, tensor<48x9xf32> -> tensor<4x8x48xf32>
  lm.return
}

// -----

// linear_data_grad_transposed_weight
lm.layer_class @p(%x: tensor<4x8x10xf32>, %w: tensor<9x48xf32>) {
  // expected-error@+1 {{'lm.linear_data_grad' op has a weight for widths 48 to 9; expected 48 to 10 or more}}
  %0 = lm.linear_data_grad %x, %w transposed : tensor<4x8x10xf32>, tensor<9x48xf32> -> tensor<4x8x48xf32>
  lm.return
}

// -----

// linear_data_grad_rows
lm.layer_class @p(%x: tensor<4x8x9xf32>, %w: tensor<48x9xf32>) {
  // expected-error@+1 {{'lm.linear_data_grad' op has result rows of shape [8, 4]; expected [4, 8]}}
  %0 = lm.linear_data_grad %x, %w : tensor<4x8x9xf32>, tensor<48x9xf32> -> tensor<8x4x48xf32>
  lm.return
}

// -----

// linear_weight_grad_result
lm.layer_class @p(%x: tensor<4x8x48xf32>, %u: tensor<4x8x9xf32>) {
  // expected-error@+1 {{'lm.linear_weight_grad' op has a weight for widths 9 to 48; expected 48 to 9}}
  %0 = lm.linear_weight_grad %x, %u : tensor<4x8x48xf32>, tensor<4x8x9xf32> -> tensor<9x48xf32>
  lm.return
}

// -----

// linear_weight_grad_rows
lm.layer_class @p(%x: tensor<4x8x48xf32>, %u: tensor<4x9xf32>) {
  // expected-error@+1 {{'lm.linear_weight_grad' op has adjoint rows of shape [4]; expected [4, 8]}}
  %0 = lm.linear_weight_grad %x, %u : tensor<4x8x48xf32>, tensor<4x9xf32> -> tensor<48x9xf32>
  lm.return
}

// -----

// bias_grad_result
lm.layer_class @p(%x: tensor<4x8x48xf32>) {
  // expected-error@+1 {{'lm.bias_grad' op has a result of shape [8]; expected [48]}}
  %0 = lm.bias_grad %x : tensor<4x8x48xf32> -> tensor<8xf32>
  lm.return
}

// -----

// norm_data_grad_gain
lm.layer_class @p(%x: tensor<4x8x48xf32>, %g: tensor<47xf32>, %r: tensor<4x8xf32>) {
  // expected-error@+1 {{'lm.norm_data_grad' op has a gain of shape [47]; expected [48]}}
  %0 = lm.norm_data_grad layer_norm %x, %x, %g, %r, %r : tensor<4x8x48xf32>, tensor<47xf32>, tensor<4x8xf32>
  lm.return
}

// -----

// norm_data_grad_mean
lm.layer_class @p(%x: tensor<4x8x48xf32>, %g: tensor<48xf32>, %r: tensor<4xf32>) {
  // expected-error@+1 {{'lm.norm_data_grad' op has a mean of shape [4]; expected [4, 8]}}
  %0 = lm.norm_data_grad layer_norm %x, %x, %g, %r, %r : tensor<4x8x48xf32>, tensor<48xf32>, tensor<4xf32>
  lm.return
}

// -----

// norm_gain_grad_result
lm.layer_class @p(%x: tensor<4x8x48xf32>, %r: tensor<4x8xf32>) {
  // expected-error@+1 {{'lm.norm_gain_grad' op has a result of shape [8]; expected [48]}}
  %0 = lm.norm_gain_grad %x, %x, %r, %r : tensor<4x8x48xf32>, tensor<4x8xf32> -> tensor<8xf32>
  lm.return
}

// -----

// attention_grad_output
lm.layer_class @p(%q: tensor<4x8x144xf32>, %o: tensor<4x8x47xf32>, %l: tensor<4x4x8xf32>) {
  // expected-error@+1 {{'lm.attention_grad' op has an output of shape [4, 8, 47]; expected [4, 8, 48]}}
  %0 = lm.attention_grad %o, %o, %l of %q heads(4) kv_heads(4) scale(0.5) : (tensor<4x8x47xf32>, tensor<4x8x47xf32>, tensor<4x4x8xf32>, tensor<4x8x144xf32>) -> tensor<4x8x144xf32>
  lm.return
}

// -----

// take_position_grad_adjoint
lm.layer_class @p(%x: tensor<4x47xf32>, %p: tensor<4xi32>) {
  // expected-error@+1 {{'lm.take_position_grad' op has an adjoint of shape [4, 47]; expected [4, 48]}}
  %0 = lm.take_position_grad %x, %p : tensor<4x47xf32>, tensor<4xi32> -> tensor<4x8x48xf32>
  lm.return
}

// -----

// cross_entropy_grad_rows
lm.layer_class @p(%l: tensor<4x8x97xf32>, %t: tensor<4xi32>, %w: tensor<4xf32>) {
  // expected-error@+1 {{'lm.cross_entropy_grad' op has an lse of shape [4]; expected [4, 8]}}
  %0 = lm.cross_entropy_grad %l, %w, %t, %w : tensor<4x8x97xf32> -> tensor<4xf32>
  lm.return
}

// -----

// program_input
// expected-error@+1 {{'lm.program' op has an input 'x'; a runtime fills tokens, targets, weights, examples, positions, random, hyper}}
lm.program objective @p(%x: tensor<4xf32>) -> () {
  lm.return
}

// -----

// program_output
// expected-error@+1 {{'lm.program' op has an output 'y'; a runtime reads loss, grad_norm, logits and gradient/NAME}}
lm.program objective @p(%weights: tensor<4xf32>) -> (y: tensor<4xf32>) {
  lm.return %weights : tensor<4xf32>
}

// -----

// state_of_nothing
// expected-error@+1 {{'lm.state' op belongs to @w, which is no lm.param}}
lm.state @m of @w

// -----

// assign_type
lm.param @w : tensor<4x4xf32> init <constant, 0.0>
lm.program train @p(%weights: tensor<4x5xf32>) -> () {
  // expected-error@+1 {{'lm.assign' op has type 'tensor<4x5xf32>', but @w is declared 'tensor<4x4xf32>'}}
  lm.assign @w, %weights : tensor<4x5xf32>
  lm.return
}

// -----

// update_moments
lm.layer_class @p(%w: tensor<4xf32>, %n: tensor<f32>, %h: tensor<8xf32>) {
  // expected-error@+1 {{'lm.update' op by adamw has 1 tensors; expected 3: value and two moments}}
  %0 = lm.update adamw %w by %w norm %n hyper %h : tensor<4xf32>
  lm.return
}

// -----

// micro_batches_slice
lm.layer_class @p(%t: tensor<3x4xi32>) {
  // expected-error@+1 {{'lm.micro_batches' op has an operand of type 'tensor<3x4xi32>' for an argument of type 'tensor<5xi32>'}}
  lm.micro_batches count(3) slices(%t) collected(0) : (tensor<3x4xi32>) -> () {
  ^bb0(%a: tensor<5xi32>):
    lm.yield
  }
  lm.return
}
