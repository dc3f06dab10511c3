// SPDX-License-Identifier: Apache-2.0
// The frame: parameters, layer classes, programs.
#ifndef FTLM_DIALECTS_LM_FRAME_TD
#define FTLM_DIALECTS_LM_FRAME_TD

include "dialects/lm/LmBase.td"

def Lm_ParamOp : Lm_Op<"param", [Symbol]> {
  let summary = "declares a parameter, or the same parameter of every layer";
  let description = [{
    With `layers(n)` the op declares a family of n tensors of one shape; the name holds a `*` where
    the number of the layer stands. `decay` marks tensors that weight decay applies to. `stored`
    tells how a checkpoint file names it, when not by its own name. `view` is the number of leading
    rows that take part in the model (GPT-1's table with fewer positions than stored).

    Example:

    ```mlir
    lm.param @transformer.wte.weight : tensor<50257x768xf32> init #lm.init<normal, 2.0e-02> decay
    lm.param @"transformer.h.*.ln_1.weight" layers(12) : tensor<768xf32> init #lm.init<constant, 1.0>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Lm_Tensor>:$type,
      OptionalAttr<Lm_I64Attr>:$layers, Lm_InitAttr:$init, UnitAttr:$decay, UnitAttr:$frozen,
      OptionalAttr<Lm_StoredArrayAttr>:$stored, OptionalAttr<Lm_I64Attr>:$view);
  let assemblyFormat = [{
    $sym_name (`layers` `(` $layers^ `)`)? `:` $type `init` $init (`decay` $decay^)?
    (`frozen` $frozen^)? (`view` `(` $view^ `)`)? (`stored` $stored^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Lm_UseOp : Lm_Op<"use", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "the value of a parameter";
  let description = [{
    In a layer class the parameter is a family and the value is that of the calling layer. The value
    may also be that of an optimizer state (`lm.state`).

    Example:

    ```mlir
    %ln_1.weight = lm.use @"transformer.h.*.ln_1.weight" : tensor<768xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$param);
  let results = (outs Lm_Tensor:$result);
  let assemblyFormat = "$param attr-dict `:` type($result)";
}

def Lm_LayerClassOp : Lm_Op<"layer_class", [IsolatedFromAbove, AutomaticAllocationScope,
    FunctionOpInterface, OpAsmOpInterface]> {
  let summary = "the body of a layer, written once";
  let description = [{
    Takes and returns tensors; parameters are read inside by `lm.use` of a family. The names of the
    arguments in the text are kept (`argument_names`).

    Example:

    ```mlir
    lm.layer_class @block(%x: tensor<4x512x768xf32>) -> tensor<4x512x768xf32> {
      %w = lm.use @"h.*.ln_1.weight" : tensor<768xf32>
      ...
      lm.return %y : tensor<4x512x768xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      StrArrayAttr:$argument_names, OptionalAttr<DictArrayAttr>:$arg_attrs,
      OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    void getAsmBlockArgumentNames(::mlir::Region &, ::mlir::OpAsmSetValueNameFn setName);
  }];
}

def Lm_LayerCallOp : Lm_Op<"layer_call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a layer class for one layer";
  let description = [{
    `layer(i)` selects the members of the parameter families and the random sites.

    Example:

    ```mlir
    %x1 = lm.layer_call @block(%x0) layer(0) : (tensor<4x512x768xf32>) -> tensor<4x512x768xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$inputs, Lm_I64Attr:$layer);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $callee `(` $inputs `)` `layer` `(` $layer `)` attr-dict `:` functional-type($inputs, $results)
  }];
}

def Lm_ProgramOp : Lm_Op<"program", [IsolatedFromAbove, AutomaticAllocationScope,
    FunctionOpInterface, OpAsmOpInterface]> {
  let summary = "what a step runs, on one micro-batch";
  let description = [{
    The *purpose* says what a program is for: `objective` (the forward pass of training, on one
    micro-batch), `gradients` (the objective and the gradient of every use of a parameter), `train`
    (a whole step), `evaluate` (the objective without random numbers), `generate` (the logits of the
    next token). A module has at most one of each.

    Arguments are what the runtime fills, and their names say with what: `tokens`, `targets`
    (i32 [B, T]), `weights` (f32 [B, T], the weight of each target in the whole objective),
    `examples` (i32 [B], the numbers of the sequences in the step), `positions` (i32 [B]), `random`
    (i64 [2] = {seed, step}), `hyper` (f32 [8], `lm.update`); in `train` those of a micro-batch have
    the micro-batches of the step before their dimensions. Results are what the runtime reads:
    `loss` (of all micro-batches in `train`), `grad_norm`, `logits`, and `gradient/NAME` for a
    parameter; in `gradients` a parameter with several uses has a result for each, in their order.

    Example:

    ```mlir
    lm.program objective @loss(%tokens: tensor<4x512xi32>, %targets: tensor<4x512xi32>,
                               %weights: tensor<4x512xf32>) -> (loss: tensor<f32>) {
      ...
      lm.return %loss : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Lm_PurposeAttr:$purpose, SymbolNameAttr:$sym_name,
      TypeAttrOf<FunctionType>:$function_type, StrArrayAttr:$argument_names, StrArrayAttr:$result_names, OptionalAttr<DictArrayAttr>:$arg_attrs,
      OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    void getAsmBlockArgumentNames(::mlir::Region &, ::mlir::OpAsmSetValueNameFn setName);
    /// The argument with this name, or null.
    ::mlir::BlockArgument getArgumentNamed(::llvm::StringRef name);
  }];
}

def Lm_ReturnOp : Lm_Op<"return", [Pure, Terminator, ReturnLike,
    ParentOneOf<["LayerClassOp", "ProgramOp"]>]> {
  let summary = "ends a layer class or a program";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

#endif
