// SPDX-License-Identifier: Apache-2.0
// Every op of the lm dialect, printed as it was read, in its own form and in the generic form.
// RUN: ftlm-opt %s | ftlm-opt | FileCheck %s
// RUN: ftlm-opt --mlir-print-op-generic %s | ftlm-opt | FileCheck %s
// RUN: ftlm-opt --emit-bytecode %s | ftlm-opt | FileCheck %s

// CHECK: lm.param @wte : tensor<97x48xf32> init <normal, 2.000000e-02> decay
lm.param @wte : tensor<97x48xf32> init <normal, 2.000000e-02> decay
// CHECK: lm.param @wpe : tensor<32x48xf32> init <normal, 2.000000e-02> decay frozen
lm.param @wpe : tensor<32x48xf32> init <normal, 2.000000e-02> decay frozen
// CHECK: lm.param @we : tensor<112x48xf32> init <normal, 2.000000e-02> decay view(104) stored [#lm.stored<"tokens_embed.weight", 0, 80>, #lm.stored<"positions_embed.weight", 80, 32>]
lm.param @we : tensor<112x48xf32> init <normal, 2.000000e-02> decay view(104) stored [#lm.stored<"tokens_embed.weight", 0, 80>, #lm.stored<"positions_embed.weight", 80, 32>]
// CHECK: lm.param @"h.*.g" layers(3) : tensor<48xf32> init <constant, 1.000000e+00>
lm.param @"h.*.g" layers(3) : tensor<48xf32> init <constant, 1.000000e+00>
// CHECK: lm.param @"h.*.w" layers(3) : tensor<48x192xf32> init <normal, 2.000000e-02> decay
lm.param @"h.*.w" layers(3) : tensor<48x192xf32> init <normal, 2.000000e-02> decay

// CHECK: lm.state @"moment1/h.*.g" of @"h.*.g"
lm.state @"moment1/h.*.g" of @"h.*.g"

// CHECK: lm.layer_class @block(%x: tensor<4x8x48xf32>) -> tensor<4x8x48xf32> {
lm.layer_class @block(%x: tensor<4x8x48xf32>) -> tensor<4x8x48xf32> {
  // CHECK-NEXT: %g = lm.use @"h.*.g" : tensor<48xf32>
  %g = lm.use @"h.*.g" : tensor<48xf32>
  // CHECK-NEXT: %result, %mean, %rstd = lm.norm rms_norm %x gain %g epsilon(1.000000e-05) : tensor<4x8x48xf32> -> tensor<4x8xf32>
  %result, %mean, %rstd = lm.norm rms_norm %x gain %g epsilon(1.000000e-05) : tensor<4x8x48xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %0 = lm.add %x, %result : tensor<4x8x48xf32>
  %0 = lm.add %x, %result : tensor<4x8x48xf32>
  // CHECK-NEXT: lm.return %0 : tensor<4x8x48xf32>
  lm.return %0 : tensor<4x8x48xf32>
// CHECK-NEXT: }
}

// CHECK: lm.layer_class @two(%x: tensor<4x48xf32>) -> (tensor<4x48xf32>, tensor<4x192xf32>) {
lm.layer_class @two(%x: tensor<4x48xf32>) -> (tensor<4x48xf32>, tensor<4x192xf32>) {
  // CHECK-NEXT: %w = lm.use @"h.*.w" : tensor<48x192xf32>
  %w = lm.use @"h.*.w" : tensor<48x192xf32>
  // CHECK-NEXT: %0 = lm.linear %x, %w : tensor<4x48xf32>, tensor<48x192xf32> -> tensor<4x192xf32>
  %0 = lm.linear %x, %w : tensor<4x48xf32>, tensor<48x192xf32> -> tensor<4x192xf32>
  // CHECK-NEXT: lm.return %x, %0 : tensor<4x48xf32>, tensor<4x192xf32>
  lm.return %x, %0 : tensor<4x48xf32>, tensor<4x192xf32>
// CHECK-NEXT: }
}

// CHECK: lm.program objective @calls(%weights: tensor<4x8x48xf32>, %tokens: tensor<4x48xf32>) -> (loss: tensor<4x8x48xf32>, "gradient/h.0.g": tensor<97x48xf32>) {
lm.program objective @calls(%weights: tensor<4x8x48xf32>, %tokens: tensor<4x48xf32>) -> (loss: tensor<4x8x48xf32>, "gradient/h.0.g": tensor<97x48xf32>) {
  // CHECK-NEXT: %wte = lm.use @wte : tensor<97x48xf32>
  %wte = lm.use @wte : tensor<97x48xf32>
  // CHECK-NEXT: %0 = lm.layer_call @block(%weights) layer(0) : (tensor<4x8x48xf32>) -> tensor<4x8x48xf32>
  %0 = lm.layer_call @block(%weights) layer(0) : (tensor<4x8x48xf32>) -> tensor<4x8x48xf32>
  // CHECK-NEXT: %1:2 = lm.layer_call @two(%tokens) layer(2) : (tensor<4x48xf32>) -> (tensor<4x48xf32>, tensor<4x192xf32>)
  %1:2 = lm.layer_call @two(%tokens) layer(2) : (tensor<4x48xf32>) -> (tensor<4x48xf32>, tensor<4x192xf32>)
  // CHECK-NEXT: %g = lm.use @"h.*.g" {lm.layer = 1 : i64} : tensor<48xf32>
  %g = lm.use @"h.*.g" {lm.layer = 1 : i64} : tensor<48xf32>
  // CHECK-NEXT: lm.return %0, %wte : tensor<4x8x48xf32>, tensor<97x48xf32>
  lm.return %0, %wte : tensor<4x8x48xf32>, tensor<97x48xf32>
// CHECK-NEXT: }
}

// CHECK: lm.layer_class @forward(%tokens: tensor<4x8xi32>, %targets: tensor<4x8xi32>, %weights: tensor<4x8xf32>, %positions: tensor<4xi32>, %random: tensor<2xi64>, %examples: tensor<4xi32>, %wte: tensor<97x48xf32>, %wpe: tensor<32x48xf32>, %we: tensor<112x48xf32>, %q: tensor<4x8x48xf32>, %kv: tensor<4x8x16xf32>, %g: tensor<48xf32>, %w: tensor<48x144xf32>, %b: tensor<144xf32>) -> tensor<f32> {
lm.layer_class @forward(%tokens: tensor<4x8xi32>, %targets: tensor<4x8xi32>, %weights: tensor<4x8xf32>, %positions: tensor<4xi32>, %random: tensor<2xi64>, %examples: tensor<4xi32>, %wte: tensor<97x48xf32>, %wpe: tensor<32x48xf32>, %we: tensor<112x48xf32>, %q: tensor<4x8x48xf32>, %kv: tensor<4x8x16xf32>, %g: tensor<48xf32>, %w: tensor<48x144xf32>, %b: tensor<144xf32>) -> tensor<f32> {
  // CHECK-NEXT: %0 = lm.embedding %tokens, %wte : tensor<4x8xi32>, tensor<97x48xf32> -> tensor<4x8x48xf32>
  %0 = lm.embedding %tokens, %wte : tensor<4x8xi32>, tensor<97x48xf32> -> tensor<4x8x48xf32>
  // CHECK-NEXT: %1 = lm.embedding %tokens, %wte positions %wpe offset(0) : tensor<4x8xi32>, tensor<97x48xf32>, tensor<32x48xf32> -> tensor<4x8x48xf32>
  %1 = lm.embedding %tokens, %wte positions %wpe offset(0) : tensor<4x8xi32>, tensor<97x48xf32>, tensor<32x48xf32> -> tensor<4x8x48xf32>
  // CHECK-NEXT: %2 = lm.embedding %tokens, %we positions %we offset(80) : tensor<4x8xi32>, tensor<112x48xf32>, tensor<112x48xf32> -> tensor<4x8x48xf32>
  %2 = lm.embedding %tokens, %we positions %we offset(80) : tensor<4x8xi32>, tensor<112x48xf32>, tensor<112x48xf32> -> tensor<4x8x48xf32>
  // CHECK-NEXT: %3 = lm.dropout %we rate(1.000000e-01) site(0) random %random : tensor<112x48xf32>, tensor<2xi64>
  %3 = lm.dropout %we rate(1.000000e-01) site(0) random %random : tensor<112x48xf32>, tensor<2xi64>
  // CHECK-NEXT: %4 = lm.dropout %0 rate(1.000000e-01) site(1) random %random, %examples : tensor<4x8x48xf32>, tensor<2xi64>, tensor<4xi32>
  %4 = lm.dropout %0 rate(1.000000e-01) site(1) random %random, %examples : tensor<4x8x48xf32>, tensor<2xi64>, tensor<4xi32>
  // CHECK-NEXT: %result, %mean, %rstd = lm.norm layer_norm %4 gain %g bias %g epsilon(1.000000e-05) : tensor<4x8x48xf32> -> tensor<4x8xf32>
  %result, %mean, %rstd = lm.norm layer_norm %4 gain %g bias %g epsilon(1.000000e-05) : tensor<4x8x48xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %5 = lm.linear %result, %w bias %b : tensor<4x8x48xf32>, tensor<48x144xf32>, tensor<144xf32> -> tensor<4x8x144xf32>
  %5 = lm.linear %result, %w bias %b : tensor<4x8x48xf32>, tensor<48x144xf32>, tensor<144xf32> -> tensor<4x8x144xf32>
  // CHECK-NEXT: %result_0, %lse = lm.attention %5 heads(4) kv_heads(4) scale(2.886750e-01) : (tensor<4x8x144xf32>) -> (tensor<4x8x48xf32>, tensor<4x4x8xf32>)
  %result_0, %lse = lm.attention %5 heads(4) kv_heads(4) scale(2.886750e-01) : (tensor<4x8x144xf32>) -> (tensor<4x8x48xf32>, tensor<4x4x8xf32>)
  // CHECK-NEXT: %result_1, %lse_2 = lm.attention %q, %kv, %kv heads(6) kv_heads(2) scale(2.500000e-01) dropout(1.000000e-01) site(2) random %random, %examples : (tensor<4x8x48xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<2xi64>, tensor<4xi32>) -> (tensor<4x8x48xf32>, tensor<4x6x8xf32>)
  %result_1, %lse_2 = lm.attention %q, %kv, %kv heads(6) kv_heads(2) scale(2.500000e-01) dropout(1.000000e-01) site(2) random %random, %examples : (tensor<4x8x48xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<2xi64>, tensor<4xi32>) -> (tensor<4x8x48xf32>, tensor<4x6x8xf32>)
  // CHECK-NEXT: %6 = lm.activation gelu_tanh %5 : tensor<4x8x144xf32>
  %6 = lm.activation gelu_tanh %5 : tensor<4x8x144xf32>
  // CHECK-NEXT: %7 = lm.activation gelu %6 : tensor<4x8x144xf32>
  %7 = lm.activation gelu %6 : tensor<4x8x144xf32>
  // CHECK-NEXT: %8 = lm.activation relu %7 : tensor<4x8x144xf32>
  %8 = lm.activation relu %7 : tensor<4x8x144xf32>
  // CHECK-NEXT: %9 = lm.activation silu %8 : tensor<4x8x144xf32>
  %9 = lm.activation silu %8 : tensor<4x8x144xf32>
  // CHECK-NEXT: %10 = lm.take_position %result, %positions : tensor<4x8x48xf32>, tensor<4xi32> -> tensor<4x48xf32>
  %10 = lm.take_position %result, %positions : tensor<4x8x48xf32>, tensor<4xi32> -> tensor<4x48xf32>
  // CHECK-NEXT: %11 = lm.linear %result, %wte transposed : tensor<4x8x48xf32>, tensor<97x48xf32> -> tensor<4x8x97xf32>
  %11 = lm.linear %result, %wte transposed : tensor<4x8x48xf32>, tensor<97x48xf32> -> tensor<4x8x97xf32>
  // CHECK-NEXT: %12 = lm.linear %10, %we transposed : tensor<4x48xf32>, tensor<112x48xf32> -> tensor<4x104xf32>
  %12 = lm.linear %10, %we transposed : tensor<4x48xf32>, tensor<112x48xf32> -> tensor<4x104xf32>
  // CHECK-NEXT: %losses, %lse_3 = lm.cross_entropy %11, %targets, %weights : tensor<4x8x97xf32> -> tensor<4x8xf32>
  %losses, %lse_3 = lm.cross_entropy %11, %targets, %weights : tensor<4x8x97xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %13 = lm.sum %losses : tensor<4x8xf32> -> tensor<f32>
  %13 = lm.sum %losses : tensor<4x8xf32> -> tensor<f32>
  // CHECK-NEXT: lm.return %13 : tensor<f32>
  lm.return %13 : tensor<f32>
// CHECK-NEXT: }
}

// CHECK: lm.layer_class @gradients(%tokens: tensor<4x8xi32>, %targets: tensor<4x8xi32>, %rows: tensor<4x8xf32>, %positions: tensor<4xi32>, %g: tensor<48xf32>, %w: tensor<48x192xf32>, %x: tensor<4x8x48xf32>, %u: tensor<4x8x192xf32>, %qkv: tensor<4x8x144xf32>, %lse: tensor<4x4x8xf32>, %logits: tensor<4x8x97xf32>, %last: tensor<4x48xf32>, %kv: tensor<4x8x16xf32>, %lse6: tensor<4x6x8xf32>, %random: tensor<2xi64>, %examples: tensor<4xi32>) {
lm.layer_class @gradients(%tokens: tensor<4x8xi32>, %targets: tensor<4x8xi32>, %rows: tensor<4x8xf32>, %positions: tensor<4xi32>, %g: tensor<48xf32>, %w: tensor<48x192xf32>, %x: tensor<4x8x48xf32>, %u: tensor<4x8x192xf32>, %qkv: tensor<4x8x144xf32>, %lse: tensor<4x4x8xf32>, %logits: tensor<4x8x97xf32>, %last: tensor<4x48xf32>, %kv: tensor<4x8x16xf32>, %lse6: tensor<4x6x8xf32>, %random: tensor<2xi64>, %examples: tensor<4xi32>) {
  // CHECK-NEXT: %0 = lm.embedding_grad %tokens, %x : tensor<4x8xi32>, tensor<4x8x48xf32> -> tensor<97x48xf32>
  %0 = lm.embedding_grad %tokens, %x : tensor<4x8xi32>, tensor<4x8x48xf32> -> tensor<97x48xf32>
  // CHECK-NEXT: %1 = lm.position_grad %x offset(0) : tensor<4x8x48xf32> -> tensor<32x48xf32>
  %1 = lm.position_grad %x offset(0) : tensor<4x8x48xf32> -> tensor<32x48xf32>
  // CHECK-NEXT: %2 = lm.linear_data_grad %u, %w : tensor<4x8x192xf32>, tensor<48x192xf32> -> tensor<4x8x48xf32>
  %2 = lm.linear_data_grad %u, %w : tensor<4x8x192xf32>, tensor<48x192xf32> -> tensor<4x8x48xf32>
  // CHECK-NEXT: %3 = lm.linear_data_grad %logits, %0 transposed : tensor<4x8x97xf32>, tensor<97x48xf32> -> tensor<4x8x48xf32>
  %3 = lm.linear_data_grad %logits, %0 transposed : tensor<4x8x97xf32>, tensor<97x48xf32> -> tensor<4x8x48xf32>
  // CHECK-NEXT: %4 = lm.linear_weight_grad %x, %u : tensor<4x8x48xf32>, tensor<4x8x192xf32> -> tensor<48x192xf32>
  %4 = lm.linear_weight_grad %x, %u : tensor<4x8x48xf32>, tensor<4x8x192xf32> -> tensor<48x192xf32>
  // CHECK-NEXT: %5 = lm.linear_weight_grad %x, %logits transposed : tensor<4x8x48xf32>, tensor<4x8x97xf32> -> tensor<97x48xf32>
  %5 = lm.linear_weight_grad %x, %logits transposed : tensor<4x8x48xf32>, tensor<4x8x97xf32> -> tensor<97x48xf32>
  // CHECK-NEXT: %6 = lm.bias_grad %u : tensor<4x8x192xf32> -> tensor<192xf32>
  %6 = lm.bias_grad %u : tensor<4x8x192xf32> -> tensor<192xf32>
  // CHECK-NEXT: %7 = lm.norm_data_grad layer_norm %x, %x, %g, %rows, %rows : tensor<4x8x48xf32>, tensor<48xf32>, tensor<4x8xf32>
  %7 = lm.norm_data_grad layer_norm %x, %x, %g, %rows, %rows : tensor<4x8x48xf32>, tensor<48xf32>, tensor<4x8xf32>
  // CHECK-NEXT: %8 = lm.norm_gain_grad %x, %x, %rows, %rows : tensor<4x8x48xf32>, tensor<4x8xf32> -> tensor<48xf32>
  %8 = lm.norm_gain_grad %x, %x, %rows, %rows : tensor<4x8x48xf32>, tensor<4x8xf32> -> tensor<48xf32>
  // CHECK-NEXT: %9 = lm.activation_grad gelu_tanh %u, %u : tensor<4x8x192xf32>
  %9 = lm.activation_grad gelu_tanh %u, %u : tensor<4x8x192xf32>
  // CHECK-NEXT: %10 = lm.attention_grad %x, %x, %lse of %qkv heads(4) kv_heads(4) scale(2.886750e-01) : (tensor<4x8x48xf32>, tensor<4x8x48xf32>, tensor<4x4x8xf32>, tensor<4x8x144xf32>) -> tensor<4x8x144xf32>
  %10 = lm.attention_grad %x, %x, %lse of %qkv heads(4) kv_heads(4) scale(2.886750e-01) : (tensor<4x8x48xf32>, tensor<4x8x48xf32>, tensor<4x4x8xf32>, tensor<4x8x144xf32>) -> tensor<4x8x144xf32>
  // CHECK-NEXT: %11:3 = lm.attention_grad %x, %x, %lse6 of %x, %kv, %kv heads(6) kv_heads(2) scale(2.886750e-01) dropout(1.000000e-01) site(0) random %random, %examples : (tensor<4x8x48xf32>, tensor<4x8x48xf32>, tensor<4x6x8xf32>, tensor<4x8x48xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<2xi64>, tensor<4xi32>) -> (tensor<4x8x48xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>)
  %11:3 = lm.attention_grad %x, %x, %lse6 of %x, %kv, %kv heads(6) kv_heads(2) scale(2.886750e-01) dropout(1.000000e-01) site(0) random %random, %examples : (tensor<4x8x48xf32>, tensor<4x8x48xf32>, tensor<4x6x8xf32>, tensor<4x8x48xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<2xi64>, tensor<4xi32>) -> (tensor<4x8x48xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>)
  // CHECK-NEXT: %12 = lm.take_position_grad %last, %positions : tensor<4x48xf32>, tensor<4xi32> -> tensor<4x8x48xf32>
  %12 = lm.take_position_grad %last, %positions : tensor<4x48xf32>, tensor<4xi32> -> tensor<4x8x48xf32>
  // CHECK-NEXT: %13 = lm.cross_entropy_grad %logits, %rows, %targets, %rows : tensor<4x8x97xf32> -> tensor<4x8xf32>
  %13 = lm.cross_entropy_grad %logits, %rows, %targets, %rows : tensor<4x8x97xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: lm.return
  lm.return
// CHECK-NEXT: }
}

// CHECK: lm.program train @step(%tokens: tensor<3x2x4xi32>, %hyper: tensor<8xf32>) -> (loss: tensor<3xf32>, grad_norm: tensor<f32>) {
lm.program train @step(%tokens: tensor<3x2x4xi32>, %hyper: tensor<8xf32>) -> (loss: tensor<3xf32>, grad_norm: tensor<f32>) {
  // CHECK-NEXT: %wte = lm.use @wte : tensor<97x48xf32>
  %wte = lm.use @wte : tensor<97x48xf32>
  // CHECK-NEXT: %0:2 = lm.micro_batches count(3) slices(%tokens) collected(1) : (tensor<3x2x4xi32>) -> (tensor<3xf32>, tensor<97x48xf32>) {
  %0:2 = lm.micro_batches count(3) slices(%tokens) collected(1) : (tensor<3x2x4xi32>) -> (tensor<3xf32>, tensor<97x48xf32>) {
  // CHECK-NEXT: ^bb0(%arg0: tensor<2x4xi32>):
  ^bb0(%arg0: tensor<2x4xi32>):
    // CHECK-NEXT: %3 = lm.sum %wte : tensor<97x48xf32> -> tensor<f32>
    %3 = lm.sum %wte : tensor<97x48xf32> -> tensor<f32>
    // CHECK-NEXT: lm.yield %3, %wte : tensor<f32>, tensor<97x48xf32>
    lm.yield %3, %wte : tensor<f32>, tensor<97x48xf32>
  // CHECK-NEXT: }
  }
  // CHECK-NEXT: %1 = lm.grad_norm %0#1 : tensor<97x48xf32> -> tensor<f32>
  %1 = lm.grad_norm %0#1 : tensor<97x48xf32> -> tensor<f32>
  // CHECK-NEXT: %2:3 = lm.update adamw %wte, %0#1, %wte by %0#1 norm %1 hyper %hyper decay : tensor<97x48xf32>, tensor<97x48xf32>, tensor<97x48xf32>
  %2:3 = lm.update adamw %wte, %0#1, %wte by %0#1 norm %1 hyper %hyper decay : tensor<97x48xf32>, tensor<97x48xf32>, tensor<97x48xf32>
  // CHECK-NEXT: lm.assign @wte, %2#0 : tensor<97x48xf32>
  lm.assign @wte, %2#0 : tensor<97x48xf32>
  // CHECK-NEXT: lm.return %0#0, %1 : tensor<3xf32>, tensor<f32>
  lm.return %0#0, %1 : tensor<3xf32>, tensor<f32>
// CHECK-NEXT: }
}
