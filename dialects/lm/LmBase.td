// SPDX-License-Identifier: Apache-2.0
#ifndef FTLM_DIALECTS_LM_LMBASE_TD
#define FTLM_DIALECTS_LM_LMBASE_TD

include "dialects/lm/LmAttributes.td"
include "dialects/lm/LmInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Lm_Op<string mnemonic, list<Trait> traits = []> : Op<Lm_Dialect, mnemonic, traits>;

def Lm_Float : AnyTypeOf<[F32, BF16, F16]>;
def Lm_Tensor : StaticShapeTensorOf<[Lm_Float]>;
def Lm_F32Tensor : StaticShapeTensorOf<[F32]>;
def Lm_IdTensor : StaticShapeTensorOf<[I32]>;
/// {seed, step}: what random numbers are keyed by.
def Lm_RandomTensor : StaticShapeTensorOf<[I64]>;

#endif
