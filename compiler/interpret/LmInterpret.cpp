// SPDX-License-Identifier: Apache-2.0
#include "compiler/interpret/Interpreter.h"
#include "compiler/interpret/Passes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace ftlm {
#define GEN_PASS_DEF_LMINTERPRET
#include "compiler/interpret/Passes.h.inc"

namespace {

/// `[first elements] sum S hash H`. Six digits make the hash the same where only the last bits
/// differ; adding 0 turns -0 into 0.
void print(llvm::raw_ostream &out, const interpret::Tensor &tensor) {
  constexpr size_t shown = 8;
  std::vector<std::string> texts;
  double sum = 0;
  for (double value : tensor.floats) {
    sum += value;
    llvm::raw_string_ostream(texts.emplace_back()) << llvm::format("%.6g", value + 0.0);
  }
  for (int64_t value : tensor.integers) {
    sum += static_cast<double>(value);
    texts.push_back(std::to_string(value));
  }
  out << '[';
  llvm::interleaveComma(ArrayRef(texts).take_front(shown), out);
  out << (texts.size() > shown ? ", ...]" : "]") << " sum " << llvm::format("%.6g", sum) << " hash "
      << llvm::format_hex_no_prefix(llvm::xxh3_64bits(llvm::join(texts, ",")), 16) << '\n';
}

struct LmInterpretPass : impl::LmInterpretBase<LmInterpretPass> {
  using LmInterpretBase::LmInterpretBase;

  void runOnOperation() override {
    interpret::Interpreter interpreter(getOperation());
    interpreter.setRandomParameters(seed);
    auto inputs = interpreter.randomInputs(program, seed);
    if (failed(inputs))
      return signalPassFailure();
    auto results = interpreter.run(program, *inputs);
    if (failed(results))
      return signalPassFailure();
    auto found = SymbolTable(getOperation()).lookup<FunctionOpInterface>(program);
    for (auto [i, result] : llvm::enumerate(*results)) {
      llvm::outs() << '@' << program << " result " << i << ": " << found.getResultTypes()[i] << ' ';
      print(llvm::outs(), result);
    }
    llvm::outs().flush();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace ftlm
