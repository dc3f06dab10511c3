// SPDX-License-Identifier: Apache-2.0
#include "test/unit/interpret/InterpretTesting.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <cstdlib>

using namespace mlir;

namespace ftlm::interpret {

Diagnosed::Diagnosed() {
  mlirContext.loadDialect<lm::LmDialect>();
  mlirContext.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    messages += diagnostic.str() + '\n';
    return success();
  });
}

OwningOpRef<ModuleOp> Diagnosed::parse(StringRef text) {
  auto module = parseSourceString<ModuleOp>(text, &mlirContext);
  EXPECT_TRUE(module) << messages << text.str();
  return module;
}

SmallVector<Tensor> runText(StringRef text, const Inputs &inputs) {
  Diagnosed diagnosed;
  auto module = diagnosed.parse(text);
  if (!module)
    return {};
  Interpreter interpreter(*module);
  auto results = interpreter.run("f", inputs);
  EXPECT_TRUE(succeeded(results)) << diagnosed.text();
  return succeeded(results) ? *results : SmallVector<Tensor>();
}

std::string failureOf(StringRef text, const Inputs &inputs) {
  Diagnosed diagnosed;
  auto module = diagnosed.parse(text);
  if (!module)
    return {};
  Interpreter interpreter(*module);
  EXPECT_TRUE(failed(interpreter.run("f", inputs)));
  return diagnosed.text();
}

double numericDerivative(double &variable, const std::function<double()> &function) {
  constexpr double step = 2e-4;
  double start = variable;
  auto at = [&](double offset) {
    variable = start + offset;
    return function();
  };
  double near = at(step) - at(-step), far = at(2 * step) - at(-2 * step);
  variable = start;
  return (8 * near - far) / (12 * step);
}

Tensor awayFromZero(RankedTensorType type, uint64_t seed, StringRef name) {
  Tensor tensor = randomTensor(type, seed, name);
  for (double &value : tensor.floats)
    value = std::copysign(0.1 + 0.9 * std::abs(value), value);
  return tensor;
}

std::filesystem::path goldenFolder() {
  const char *shared = std::getenv("FTLM_SHARED");
  auto folder = (shared ? std::filesystem::path(shared)
                        : std::filesystem::path(FTLM_SOURCE).parent_path() / "shared") /
                "golden";
  return std::filesystem::is_directory(folder) ? folder : std::filesystem::path();
}

double largest(const Tensor &tensor) {
  double found = 0;
  for (double value : tensor.floats)
    found = std::max(found, std::abs(value));
  return found;
}

} // namespace ftlm::interpret
