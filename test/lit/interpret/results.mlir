// SPDX-License-Identifier: Apache-2.0
// Inputs are a function of the seed and of their names alone, and each result is a line.
// RUN: ftlm-opt --lm-interpret="program=first seed=1" -o /dev/null %s > %t.first
// RUN: ftlm-opt --lm-interpret="program=second seed=1" -o /dev/null %s > %t.second
// RUN: ftlm-opt --lm-interpret="program=first seed=2" -o /dev/null %s > %t.other
// RUN: FileCheck %s < %t.first
// RUN: sed s/@second/@first/ %t.second | diff %t.first -
// RUN: not diff %t.first %t.other
// The module stays as it is.
// RUN: ftlm-opt --lm-interpret=program=first -o %t.after %s
// RUN: ftlm-opt %s | diff %t.after -

// CHECK: @first result 0: tensor<2x3xf32> [{{-?[0-9.e-]+(, -?[0-9.e-]+)(, -?[0-9.e-]+)(, -?[0-9.e-]+)(, -?[0-9.e-]+)(, -?[0-9.e-]+)}}] sum {{-?[0-9.]+}} hash {{[0-9a-f]+$}}
// CHECK-NEXT: @first result 1: tensor<f32> [{{-?[0-9.]+}}] sum {{-?[0-9.]+}} hash {{[0-9a-f]+$}}
// CHECK-NEXT: @first result 2: tensor<9xf32> [{{([-0-9.e]+, )([-0-9.e]+, )([-0-9.e]+, )([-0-9.e]+, )([-0-9.e]+, )([-0-9.e]+, )([-0-9.e]+, )([-0-9.e]+, )}}...] sum
// CHECK-NEXT: @first result 3: tensor<2xi32> [{{[0-4], [0-4]}}] sum {{[0-8]}} hash {{[0-9a-f]+$}}
// CHECK-NOT: {{.}}

lm.param @"h.*.bias" layers(2) : tensor<3xf32> init <constant, 0.0>

lm.layer_class @bias() -> tensor<3xf32> {
  %b = lm.use @"h.*.bias" : tensor<3xf32>
  lm.return %b : tensor<3xf32>
}

lm.layer_class @first(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %z: tensor<9xf32>, %i: tensor<2xi32>,
                  %w: tensor<3x3xf32>, %u: tensor<2x5x1xf32>)
    -> (tensor<2x3xf32>, tensor<f32>, tensor<9xf32>, tensor<2xi32>) {
  %b = lm.layer_call @bias() layer(1) : () -> tensor<3xf32>
  %0 = lm.add %x, %y : tensor<2x3xf32>
  %1 = lm.linear %0, %w bias %b
      : tensor<2x3xf32>, tensor<3x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %2 = lm.sum %1 : tensor<2x3xf32> -> tensor<f32>
  %3 = lm.take_position %u, %i : tensor<2x5x1xf32>, tensor<2xi32> -> tensor<2x1xf32>
  lm.return %1, %2, %z, %i : tensor<2x3xf32>, tensor<f32>, tensor<9xf32>, tensor<2xi32>
}

// The same in another order, with the sum of the two products.
lm.layer_class @second(%i: tensor<2xi32>, %z: tensor<9xf32>, %w: tensor<3x3xf32>, %y: tensor<2x3xf32>,
                   %x: tensor<2x3xf32>, %u: tensor<2x5x1xf32>)
    -> (tensor<2x3xf32>, tensor<f32>, tensor<9xf32>, tensor<2xi32>) {
  %3 = lm.take_position %u, %i : tensor<2x5x1xf32>, tensor<2xi32> -> tensor<2x1xf32>
  %b = lm.layer_call @bias() layer(1) : () -> tensor<3xf32>
  %4 = lm.linear %y, %w bias %b
      : tensor<2x3xf32>, tensor<3x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %5 = lm.linear %x, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
  %1 = lm.add %4, %5 : tensor<2x3xf32>
  %2 = lm.sum %1 : tensor<2x3xf32> -> tensor<f32>
  lm.return %1, %2, %z, %i : tensor<2x3xf32>, tensor<f32>, tensor<9xf32>, tensor<2xi32>
}
