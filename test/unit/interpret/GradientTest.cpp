// SPDX-License-Identifier: Apache-2.0
// Gradients against central differences in float64, for every differentiable op; and that no op of
// the dialect is left out, neither of the interpreter nor of these tests.
#include "test/unit/interpret/GradientCases.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace ftlm::interpret {

/// Names tests in the output.
static void PrintTo(const GradientCase &tested, std::ostream *out) {
  *out << tested.name;
}
static void PrintTo(const Sizes &sizes, std::ostream *out) {
  *out << sizes.batch << 'x' << sizes.time << 'x' << sizes.channels;
}

namespace {

constexpr uint64_t seed = 20240607;

class Gradients : public testing::TestWithParam<std::tuple<GradientCase, Sizes>> {};

TEST_P(Gradients, agreeWithCentralDifferences) {
  auto [tested, sizes] = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Diagnosed diagnosed;
  auto module = diagnosed.parse(instantiate(tested, sizes));
  ASSERT_TRUE(module);
  BuiltCase built = buildCase(*module, tested);
  ASSERT_TRUE(built.gradient) << diagnosed.text();
  Interpreter interpreter(*module);

  Inputs inputs;
  SmallVector<std::string> names;
  for (auto [i, argument] : llvm::enumerate(built.forward.getBody().getArguments())) {
    auto type = cast<RankedTensorType>(argument.getType());
    StringRef name = cast<StringAttr>(built.forward.getArgumentNames()[i]).getValue();
    names.push_back(name.str());
    inputs[name] = isa<FloatType>(type.getElementType())
                       ? awayFromZero(type, seed, name)
                       : randomTensor(type, seed, name, 0, 1, indexLimit(argument));
    if (name == "random")
      inputs[name].integers = {0x123456789abcdef, 7};
  }
  // The functional is the sum of adjoint * result; the adjoint of a loss is 1 by definition.
  Inputs withAdjoints = inputs;
  SmallVector<Tensor> adjoints;
  for (auto [i, type] : llvm::enumerate(built.forward.getResultTypes())) {
    std::string name = "adjoint" + std::to_string(i);
    Tensor adjoint = awayFromZero(cast<RankedTensorType>(type), seed, name);
    if (isa<lm::CrossEntropyOp>(built.op))
      std::fill(adjoint.floats.begin(), adjoint.floats.end(), 1.0);
    withAdjoints[name] = adjoint;
    adjoints.push_back(adjoint);
  }
  auto functional = [&] {
    auto results = interpreter.run("f", inputs);
    double sum = 0;
    for (size_t r = 0; succeeded(results) && r < adjoints.size(); ++r)
      for (size_t i = 0; i < adjoints[r].floats.size(); ++i)
        sum += adjoints[r].floats[i] * (*results)[r].floats[i];
    return succeeded(results) ? sum : std::nan("");
  };

  auto found = interpreter.run("gradient", withAdjoints);
  ASSERT_TRUE(succeeded(found)) << diagnosed.text();
  std::map<unsigned, Tensor> byArgument;
  for (auto [argument, gradient] : llvm::zip_equal(built.arguments, *found)) {
    auto [entry, isNew] = byArgument.try_emplace(argument, gradient);
    for (size_t i = 0; !isNew && i < gradient.floats.size(); ++i)
      entry->second.floats[i] += gradient.floats[i];
  }
  for (auto &[argument, gradient] : byArgument) {
    Tensor &variable = inputs[names[argument]];
    ASSERT_EQ(variable.shape, gradient.shape);
    Tensor expected = gradient;
    for (size_t i = 0; i < variable.floats.size(); ++i)
      expected.floats[i] = numericDerivative(variable.floats[i], functional);
    double tolerance = 1e-6 * largest(expected) + 1e-10;
    for (size_t i = 0; i < variable.floats.size(); ++i)
      ASSERT_NEAR(gradient.floats[i], expected.floats[i], tolerance)
          << "element " << i << " of the gradient of " << names[argument];
  }
}

std::string caseName(const testing::TestParamInfo<std::tuple<GradientCase, Sizes>> &tested) {
  const auto &gradient = std::get<GradientCase>(tested.param);
  const auto &sizes = std::get<Sizes>(tested.param);
  return std::string(gradient.name) + "_" + std::to_string(sizes.batch) + "_" +
         std::to_string(sizes.time) + "_" + std::to_string(sizes.channels);
}

const Sizes oddSizes[] = {{1, 1, 1}, {3, 1, 17}, {1, 17, 1}, {3, 3, 3}, {1, 3, 33}};

INSTANTIATE_TEST_SUITE_P(All, Gradients,
                         testing::Combine(testing::ValuesIn(gradientCases()),
                                          testing::ValuesIn(oddSizes)),
                         caseName);

/// Ops that compute and that no gradient passes through, or that are differentiated otherwise.
const std::set<std::string> withoutGradient = {
    "lm.use",           // the end of a gradient's way
    "lm.layer_call",    // its class is differentiated
    "lm.cross_entropy", // the start of a gradient's way: lm.cross_entropy_grad
    "lm.sum",           // of losses, each with adjoint 1
    // What becomes of gradients:
    "lm.micro_batches",
    "lm.grad_norm",
    "lm.update",
    "lm.assign",
};

TEST(EveryOp, thatComputesHasAMeaningAndAGradientIsTested) {
  Diagnosed diagnosed;
  std::set<std::string> tested, emitted;
  for (const GradientCase &gradient : gradientCases()) {
    auto module = diagnosed.parse(instantiate(gradient, {3, 3, 3}));
    ASSERT_TRUE(module);
    BuiltCase built = buildCase(*module, gradient);
    ASSERT_TRUE(built.gradient) << gradient.name << '\n' << diagnosed.text();
    tested.insert(gradient.op);
    emitted.insert(built.emitted.begin(), built.emitted.end());
  }
  MeaningTable meanings = allMeanings();
  size_t computing = 0;
  for (RegisteredOperationName op : diagnosed.context().getRegisteredOperations()) {
    std::string name = op.getStringRef().str();
    if (op.getDialectNamespace() != "lm" || op.hasInterface<SymbolOpInterface>() ||
        op.hasTrait<OpTrait::IsTerminator>())
      continue;
    ++computing;
    EXPECT_TRUE(meanings.contains(name)) << name << " has no meaning: add it to compiler/interpret";
    if (op.hasInterface<lm::GradientOpInterface>()) {
      EXPECT_TRUE(tested.contains(name)) << name << " has no case in GradientCases.cpp";
    } else if (!withoutGradient.contains(name)) {
      EXPECT_TRUE(emitted.contains(name)) << name << " is not emitted by any gradient case";
    }
  }
  EXPECT_GT(computing, 20u);
  for (const auto &meaning : meanings)
    EXPECT_TRUE(RegisteredOperationName::lookup(meaning.first(), &diagnosed.context()))
        << meaning.first().str() << " has a meaning, but is no op";
}

TEST(EveryOp, hasACaseForEachOfItsKinds) {
  auto isTested = [](StringRef words) {
    return llvm::any_of(gradientCases(), [&](const GradientCase &gradient) {
      return StringRef(gradient.text).contains(words);
    });
  };
  for (unsigned i = 0; i <= lm::getMaxEnumValForActivation(); ++i) {
    std::string kind = lm::stringifyActivation(*lm::symbolizeActivation(i)).str();
    EXPECT_TRUE(isTested("lm.activation " + kind + " ")) << kind;
  }
  for (unsigned i = 0; i <= lm::getMaxEnumValForNormKind(); ++i) {
    std::string kind = lm::stringifyNormKind(*lm::symbolizeNormKind(i)).str();
    EXPECT_TRUE(isTested("lm.norm " + kind + " ")) << kind;
  }
}

} // namespace
} // namespace ftlm::interpret
