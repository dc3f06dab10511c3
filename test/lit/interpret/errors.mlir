// SPDX-License-Identifier: Apache-2.0
// RUN: ftlm-opt --lm-interpret=program=there --split-input-file --verify-diagnostics %s

// expected-error @below {{has no lm.program and no lm.layer_class @there to interpret}}
module {
  lm.layer_class @here() {
    lm.return
  }
}

// -----

lm.layer_class @there() -> tensor<3xf32> {
  // expected-error @below {{'arith.constant' op cannot be interpreted: it has no meaning in compiler/interpret}}
  %g = arith.constant dense<1.0> : tensor<3xf32>
  lm.return %g : tensor<3xf32>
}
