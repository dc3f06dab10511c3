// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_DIALECTS_LM_LMATTRIBUTES_TD
#define FTLM_DIALECTS_LM_LMATTRIBUTES_TD

include "dialects/lm/LmDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

/// A 64-bit integer that reads as int64_t.
def Lm_I64Attr : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer attribute"> {
  let constBuilderCall = "$_builder.getI64IntegerAttr($0)";
}

/// A number that reads as double.
def Lm_F64Attr : FloatAttrBase<F64, "64-bit float attribute"> {
  let returnType = "double";
  let convertFromStorage = "$_self.getValueAsDouble()";
  let constBuilderCall = "$_builder.getF64FloatAttr($0)";
}

class Lm_Attr<string name, string attrMnemonic> : AttrDef<Lm_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Lm_Activation : I32EnumAttr<"Activation", "a pointwise nonlinearity", [
    I32EnumAttrCase<"GeluTanh", 0, "gelu_tanh">,
    I32EnumAttrCase<"Gelu", 1, "gelu">,
    I32EnumAttrCase<"Relu", 2, "relu">,
    I32EnumAttrCase<"Silu", 3, "silu">]> {
  let cppNamespace = "::ftlm::lm";
  let genSpecializedAttr = 0;
}
def Lm_ActivationAttr : EnumAttr<Lm_Dialect, Lm_Activation, "activation">;

def Lm_NormKind : I32EnumAttr<"NormKind", "a normalisation of rows", [
    I32EnumAttrCase<"LayerNorm", 0, "layer_norm">,
    I32EnumAttrCase<"RmsNorm", 1, "rms_norm">]> {
  let cppNamespace = "::ftlm::lm";
  let genSpecializedAttr = 0;
}
def Lm_NormKindAttr : EnumAttr<Lm_Dialect, Lm_NormKind, "norm_kind">;

def Lm_InitKind : I32EnumAttr<"InitKind", "how a parameter starts when no checkpoint fills it", [
    I32EnumAttrCase<"Normal", 0, "normal">,
    I32EnumAttrCase<"Constant", 1, "constant">]> {
  let cppNamespace = "::ftlm::lm";
  let genSpecializedAttr = 0;
}

def Lm_Optimizer : I32EnumAttr<"Optimizer", "an update rule", [
    I32EnumAttrCase<"AdamW", 0, "adamw">,
    I32EnumAttrCase<"AdamGpt1", 1, "adam_gpt1">,
    I32EnumAttrCase<"Sgd", 2, "sgd">]> {
  let cppNamespace = "::ftlm::lm";
  let genSpecializedAttr = 0;
}
def Lm_Purpose : I32EnumAttr<"Purpose", "what a program is for", [
    I32EnumAttrCase<"Objective", 0, "objective">,
    I32EnumAttrCase<"Gradients", 1, "gradients">,
    I32EnumAttrCase<"Train", 2, "train">,
    I32EnumAttrCase<"Evaluate", 3, "evaluate">,
    I32EnumAttrCase<"Generate", 4, "generate">]> {
  let cppNamespace = "::ftlm::lm";
  let genSpecializedAttr = 0;
}
def Lm_PurposeAttr : EnumAttr<Lm_Dialect, Lm_Purpose, "purpose">;

def Lm_OptimizerAttr : EnumAttr<Lm_Dialect, Lm_Optimizer, "optimizer">;

def Lm_InitAttr : Lm_Attr<"Init", "init"> {
  let summary = "initial values: `normal` with a standard deviation (mean 0), or a `constant`";
  let parameters = (ins EnumParameter<Lm_InitKind>:$kind, "::mlir::FloatAttr":$number);
  let assemblyFormat = "`<` $kind `,` custom<BareF64>($number) `>`";
  let builders = [AttrBuilderWithInferredContext<(ins "::mlir::FloatAttr":$number,
                                                      "::ftlm::lm::InitKind":$kind),
                                                 "return $_get(number.getContext(), kind, number);">];
  let extraClassDeclaration = [{
    /// The standard deviation or the constant.
    double getValue() const { return getNumber().getValueAsDouble(); }
  }];
}

def Lm_StoredAttr : Lm_Attr<"Stored", "stored"> {
  let summary = "a range of rows of a parameter that a checkpoint file stores as a tensor of its own";
  let description = [{
    Where a checkpoint cuts a parameter into several tensors or calls it otherwise, each piece has
    one of these: rows `row` to `row + rows` lie in the file under `name`. A `*` in the name stands
    for the number of the layer.

    Example: GPT-1's joint table is `[#lm.stored<"tokens_embed.weight", 0, 40481>,
    #lm.stored<"positions_embed.weight", 40481, 512>]`.
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$row, "int64_t":$rows);
  let assemblyFormat = "`<` $name `,` $row `,` $rows `>`";
}
def Lm_StoredArrayAttr : TypedArrayAttrBase<Lm_StoredAttr, "pieces of a parameter in a file">;

#endif
