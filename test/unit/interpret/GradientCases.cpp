// SPDX-License-Identifier: Apache-2.0
#include "test/unit/interpret/GradientCases.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

#include <regex>

using namespace mlir;

namespace ftlm::interpret {

static const GradientCase cases[] = {
    {"embedding", "lm.embedding", R"(
lm.layer_class @f(%tokens: tensor<$Bx$Txi32>, %table: tensor<7x$Cxf32>) -> tensor<$Bx$Tx$Cxf32> {
  %y = lm.embedding %tokens, %table
      : tensor<$Bx$Txi32>, tensor<7x$Cxf32> -> tensor<$Bx$Tx$Cxf32>
  lm.return %y : tensor<$Bx$Tx$Cxf32>
})"},
    {"embeddingWithPositions", "lm.embedding", R"(
lm.layer_class @f(%tokens: tensor<$Bx$Txi32>, %table: tensor<7x$Cxf32>, %positions: tensor<21x$Cxf32>)
    -> tensor<$Bx$Tx$Cxf32> {
  %y = lm.embedding %tokens, %table positions %positions offset(3)
      : tensor<$Bx$Txi32>, tensor<7x$Cxf32>, tensor<21x$Cxf32> -> tensor<$Bx$Tx$Cxf32>
  lm.return %y : tensor<$Bx$Tx$Cxf32>
})"},
    {"embeddingOfAJointTable", "lm.embedding", R"(
lm.layer_class @f(%tokens: tensor<$Bx$Txi32>, %table: tensor<23x$Cxf32>) -> tensor<$Bx$Tx$Cxf32> {
  %y = lm.embedding %tokens, %table positions %table offset(5)
      : tensor<$Bx$Txi32>, tensor<23x$Cxf32>, tensor<23x$Cxf32> -> tensor<$Bx$Tx$Cxf32>
  lm.return %y : tensor<$Bx$Tx$Cxf32>
})"},
    {"linear", "lm.linear", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>, %w: tensor<$Cx17xf32>) -> tensor<$Tx17xf32> {
  %y = lm.linear %x, %w : tensor<$Tx$Cxf32>, tensor<$Cx17xf32> -> tensor<$Tx17xf32>
  lm.return %y : tensor<$Tx17xf32>
})"},
    {"linearWithBias", "lm.linear", R"(
lm.layer_class @f(%x: tensor<$Bx$Tx$Cxf32>, %w: tensor<$Cx5xf32>, %b: tensor<5xf32>)
    -> tensor<$Bx$Tx5xf32> {
  %y = lm.linear %x, %w bias %b
      : tensor<$Bx$Tx$Cxf32>, tensor<$Cx5xf32>, tensor<5xf32> -> tensor<$Bx$Tx5xf32>
  lm.return %y : tensor<$Bx$Tx5xf32>
})"},
    {"linearTransposed", "lm.linear", R"(
lm.layer_class @f(%x: tensor<$Bx$Tx$Cxf32>, %w: tensor<5x$Cxf32>) -> tensor<$Bx$Tx5xf32> {
  %y = lm.linear %x, %w transposed
      : tensor<$Bx$Tx$Cxf32>, tensor<5x$Cxf32> -> tensor<$Bx$Tx5xf32>
  lm.return %y : tensor<$Bx$Tx5xf32>
})"},
    {"linearTransposedWithRowsLeftOver", "lm.linear", R"(
lm.layer_class @f(%x: tensor<$Bx$Tx$Cxf32>, %w: tensor<9x$Cxf32>, %b: tensor<5xf32>)
    -> tensor<$Bx$Tx5xf32> {
  %y = lm.linear %x, %w bias %b transposed
      : tensor<$Bx$Tx$Cxf32>, tensor<9x$Cxf32>, tensor<5xf32> -> tensor<$Bx$Tx5xf32>
  lm.return %y : tensor<$Bx$Tx5xf32>
})"},
    {"layerNorm", "lm.norm", R"(
lm.layer_class @f(%x: tensor<$Bx$Tx$Cxf32>, %g: tensor<$Cxf32>, %b: tensor<$Cxf32>)
    -> tensor<$Bx$Tx$Cxf32> {
  %y, %mean, %rstd = lm.norm layer_norm %x gain %g bias %b epsilon(1.0e-02)
      : tensor<$Bx$Tx$Cxf32> -> tensor<$Bx$Txf32>
  lm.return %y : tensor<$Bx$Tx$Cxf32>
})"},
    {"layerNormWithoutBias", "lm.norm", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>, %g: tensor<$Cxf32>) -> tensor<$Tx$Cxf32> {
  %y, %mean, %rstd = lm.norm layer_norm %x gain %g epsilon(1.0e-02)
      : tensor<$Tx$Cxf32> -> tensor<$Txf32>
  lm.return %y : tensor<$Tx$Cxf32>
})"},
    {"rmsNorm", "lm.norm", R"(
lm.layer_class @f(%x: tensor<$Bx$Tx$Cxf32>, %g: tensor<$Cxf32>) -> tensor<$Bx$Tx$Cxf32> {
  %y, %mean, %rstd = lm.norm rms_norm %x gain %g epsilon(1.0e-02)
      : tensor<$Bx$Tx$Cxf32> -> tensor<$Bx$Txf32>
  lm.return %y : tensor<$Bx$Tx$Cxf32>
})"},
    {"geluTanh", "lm.activation", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>) -> tensor<$Tx$Cxf32> {
  %y = lm.activation gelu_tanh %x : tensor<$Tx$Cxf32>
  lm.return %y : tensor<$Tx$Cxf32>
})"},
    {"gelu", "lm.activation", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>) -> tensor<$Tx$Cxf32> {
  %y = lm.activation gelu %x : tensor<$Tx$Cxf32>
  lm.return %y : tensor<$Tx$Cxf32>
})"},
    {"relu", "lm.activation", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>) -> tensor<$Tx$Cxf32> {
  %y = lm.activation relu %x : tensor<$Tx$Cxf32>
  lm.return %y : tensor<$Tx$Cxf32>
})"},
    {"silu", "lm.activation", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>) -> tensor<$Tx$Cxf32> {
  %y = lm.activation silu %x : tensor<$Tx$Cxf32>
  lm.return %y : tensor<$Tx$Cxf32>
})"},
    {"attentionOfOneHead", "lm.attention", R"(
lm.layer_class @f(%qkv: tensor<$Bx$Tx$3Cxf32>) -> tensor<$Bx$Tx$Cxf32> {
  %y, %lse = lm.attention %qkv heads(1) kv_heads(1) scale(0.7)
      : (tensor<$Bx$Tx$3Cxf32>) -> (tensor<$Bx$Tx$Cxf32>, tensor<$Bx1x$Txf32>)
  lm.return %y : tensor<$Bx$Tx$Cxf32>
})"},
    {"attentionOfThreeHeads", "lm.attention", R"(
lm.layer_class @f(%qkv: tensor<$Bx$Tx$9Cxf32>) -> tensor<$Bx$Tx$3Cxf32> {
  %y, %lse = lm.attention %qkv heads(3) kv_heads(3) scale(0.7)
      : (tensor<$Bx$Tx$9Cxf32>) -> (tensor<$Bx$Tx$3Cxf32>, tensor<$Bx3x$Txf32>)
  lm.return %y : tensor<$Bx$Tx$3Cxf32>
})"},
    {"attentionOfGroupedHeads", "lm.attention", R"(
lm.layer_class @f(%qkv: tensor<$Bx$Tx$10Cxf32>) -> tensor<$Bx$Tx$6Cxf32> {
  %y, %lse = lm.attention %qkv heads(6) kv_heads(2) scale(0.7)
      : (tensor<$Bx$Tx$10Cxf32>) -> (tensor<$Bx$Tx$6Cxf32>, tensor<$Bx6x$Txf32>)
  lm.return %y : tensor<$Bx$Tx$6Cxf32>
})"},
    {"attentionWithDropout", "lm.attention", R"(
lm.layer_class @f(%qkv: tensor<$Bx$Tx$6Cxf32>, %random: tensor<2xi64>, %examples: tensor<$Bxi32>)
    -> tensor<$Bx$Tx$2Cxf32> {
  %y, %lse = lm.attention %qkv heads(2) kv_heads(2) scale(0.7) dropout(0.3) site(5)
      random %random, %examples
      : (tensor<$Bx$Tx$6Cxf32>, tensor<2xi64>, tensor<$Bxi32>)
      -> (tensor<$Bx$Tx$2Cxf32>, tensor<$Bx2x$Txf32>)
  lm.return %y : tensor<$Bx$Tx$2Cxf32>
})"},
    {"attentionOfThreeTensors", "lm.attention", R"(
lm.layer_class @f(%q: tensor<$Bx$Tx$6Cxf32>, %k: tensor<$Bx$Tx$2Cxf32>, %v: tensor<$Bx$Tx$2Cxf32>)
    -> tensor<$Bx$Tx$6Cxf32> {
  %y, %lse = lm.attention %q, %k, %v heads(6) kv_heads(2) scale(0.7)
      : (tensor<$Bx$Tx$6Cxf32>, tensor<$Bx$Tx$2Cxf32>, tensor<$Bx$Tx$2Cxf32>)
      -> (tensor<$Bx$Tx$6Cxf32>, tensor<$Bx6x$Txf32>)
  lm.return %y : tensor<$Bx$Tx$6Cxf32>
})"},
    {"attentionOfThreeTensorsWithDropout", "lm.attention", R"(
lm.layer_class @f(%q: tensor<$Bx$Tx$2Cxf32>, %k: tensor<$Bx$Tx$2Cxf32>, %v: tensor<$Bx$Tx$2Cxf32>,
                  %random: tensor<2xi64>, %examples: tensor<$Bxi32>) -> tensor<$Bx$Tx$2Cxf32> {
  %y, %lse = lm.attention %q, %k, %v heads(2) kv_heads(2) scale(0.7) dropout(0.3) site(5)
      random %random, %examples
      : (tensor<$Bx$Tx$2Cxf32>, tensor<$Bx$Tx$2Cxf32>, tensor<$Bx$Tx$2Cxf32>, tensor<2xi64>,
         tensor<$Bxi32>) -> (tensor<$Bx$Tx$2Cxf32>, tensor<$Bx2x$Txf32>)
  lm.return %y : tensor<$Bx$Tx$2Cxf32>
})"},
    {"dropout", "lm.dropout", R"(
lm.layer_class @f(%x: tensor<$Bx$Tx$Cxf32>, %random: tensor<2xi64>, %examples: tensor<$Bxi32>)
    -> tensor<$Bx$Tx$Cxf32> {
  %y = lm.dropout %x rate(0.3) site(2) random %random, %examples
      : tensor<$Bx$Tx$Cxf32>, tensor<2xi64>, tensor<$Bxi32>
  lm.return %y : tensor<$Bx$Tx$Cxf32>
})"},
    {"dropoutOfATable", "lm.dropout", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>, %random: tensor<2xi64>) -> tensor<$Tx$Cxf32> {
  %y = lm.dropout %x rate(0.3) site(2) random %random : tensor<$Tx$Cxf32>, tensor<2xi64>
  lm.return %y : tensor<$Tx$Cxf32>
})"},
    {"add", "lm.add", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>, %y: tensor<$Tx$Cxf32>) -> tensor<$Tx$Cxf32> {
  %z = lm.add %x, %y : tensor<$Tx$Cxf32>
  lm.return %z : tensor<$Tx$Cxf32>
})"},
    {"addOfAValueToItself", "lm.add", R"(
lm.layer_class @f(%x: tensor<$Tx$Cxf32>) -> tensor<$Tx$Cxf32> {
  %z = lm.add %x, %x : tensor<$Tx$Cxf32>
  lm.return %z : tensor<$Tx$Cxf32>
})"},
    {"takePosition", "lm.take_position", R"(
lm.layer_class @f(%x: tensor<$Bx$Tx$Cxf32>, %positions: tensor<$Bxi32>) -> tensor<$Bx$Cxf32> {
  %y = lm.take_position %x, %positions
      : tensor<$Bx$Tx$Cxf32>, tensor<$Bxi32> -> tensor<$Bx$Cxf32>
  lm.return %y : tensor<$Bx$Cxf32>
})"},
    {"crossEntropy", "lm.cross_entropy", R"(
lm.layer_class @f(%logits: tensor<$Bx$Tx$Cxf32>, %targets: tensor<$Bx$Txi32>,
              %weights: tensor<$Bx$Txf32>) -> tensor<$Bx$Txf32> {
  %losses, %lse = lm.cross_entropy %logits, %targets, %weights
      : tensor<$Bx$Tx$Cxf32> -> tensor<$Bx$Txf32>
  lm.return %losses : tensor<$Bx$Txf32>
})"},
};

ArrayRef<GradientCase> gradientCases() {
  return cases;
}

std::string instantiate(const GradientCase &tested, Sizes sizes) {
  std::string text = tested.text, result;
  static const std::regex placeholder("\\$([0-9]*)([BTC])");
  auto from = text.cbegin();
  for (std::sregex_iterator it(text.begin(), text.end(), placeholder), end; it != end; ++it) {
    result.append(from, (*it)[0].first);
    int64_t factor = (*it)[1].length() > 0 ? std::stoll((*it)[1].str()) : 1;
    char which = *(*it)[2].first;
    int64_t size = which == 'B' ? sizes.batch : which == 'T' ? sizes.time : sizes.channels;
    result += std::to_string(factor * size);
    from = (*it)[0].second;
  }
  result.append(from, text.cend());
  return result;
}

/// The adjoints of the op's operands. From a term of the objective differentiation starts, with an
/// adjoint of 1 for each row.
static SmallVector<Value> buildGradient(Operation *op, OpBuilder &b, ValueRange adjoints,
                                        ArrayRef<bool> wanted) {
  if (auto gradient = dyn_cast<lm::GradientOpInterface>(op))
    return gradient.buildGradient(b, adjoints, wanted);
  auto term = cast<lm::ObjectiveOpInterface>(op);
  Value seed = term.buildSeed(b);
  return llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    return operand == term.getPrediction() ? seed : Value();
  });
}

BuiltCase buildCase(ModuleOp module, const GradientCase &tested) {
  BuiltCase built;
  SymbolTable symbols(module);
  built.forward = symbols.lookup<lm::LayerClassOp>("f");
  OpBuilder b(module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  auto gradient = cast<lm::LayerClassOp>(b.clone(*built.forward));
  gradient.setSymName("gradient");
  symbols.insert(gradient);

  Block &body = gradient.getBody().front();
  unsigned inputs = body.getNumArguments();
  Operation *terminator = body.getTerminator(), *op = nullptr;
  for (Operation &candidate : body)
    if (candidate.getName().getStringRef() == tested.op)
      op = &candidate;
  for (Operation &candidate : built.forward.getBody().front())
    if (candidate.getName().getStringRef() == tested.op)
      built.op = &candidate;
  if (!op) {
    ADD_FAILURE() << "the case has no " << tested.op;
    return built;
  }

  SmallVector<Value> returned(terminator->getOperands());
  SmallVector<Attribute> names(gradient.getArgumentNames().getValue());
  SmallVector<Value> adjoints(op->getNumResults());
  for (auto [i, value] : llvm::enumerate(returned)) {
    EXPECT_EQ(value.getDefiningOp(), op);
    adjoints[cast<OpResult>(value).getResultNumber()] =
        body.addArgument(value.getType(), value.getLoc());
    names.push_back(b.getStringAttr("adjoint" + std::to_string(i)));
  }
  SmallVector<bool> wanted;
  for (Value operand : op->getOperands())
    wanted.push_back(isa<FloatType>(getElementTypeOrSelf(operand.getType())));
  if (isa<lm::CrossEntropyOp>(op))
    wanted[2] = false; // the weights belong to the data
  b.setInsertionPoint(terminator);
  Operation *last = terminator->getPrevNode();
  SmallVector<Value> found = buildGradient(op, b, adjoints, wanted);
  for (Operation *emitted = last->getNextNode(); emitted != terminator;
       emitted = emitted->getNextNode())
    built.emitted.push_back(emitted->getName().getStringRef().str());

  SmallVector<Value> results;
  for (auto [i, value] : llvm::enumerate(found)) {
    EXPECT_EQ(bool(value), bool(wanted[i])) << "adjoint of operand " << i;
    auto argument = dyn_cast<BlockArgument>(op->getOperand(static_cast<unsigned>(i)));
    if (!value || !argument || argument.getArgNumber() >= inputs)
      continue;
    results.push_back(value);
    built.arguments.push_back(argument.getArgNumber());
  }
  terminator->setOperands(results);
  gradient.setArgumentNamesAttr(b.getArrayAttr(names));
  gradient.setFunctionType(
      b.getFunctionType(body.getArgumentTypes(), TypeRange(ValueRange(results))));
  if (succeeded(verify(module)))
    built.gradient = gradient;
  return built;
}

} // namespace ftlm::interpret
