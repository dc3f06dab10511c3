// SPDX-License-Identifier: Apache-2.0
#include "dialects/kernel/KernelBuilder.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace ftlm::kernel {

KernelBuilder::KernelBuilder(ModuleOp kernels, llvm::StringRef name)
    : b(kernels.getLoc(), OpBuilder::atBlockEnd(kernels.getBody())) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), i64 = b.getI64Type();
  function = func::FuncOp::create(b, name, b.getFunctionType({pointer, pointer, i64, i64}, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  begin = function.getArgument(2);
  end = function.getArgument(3);
}

KernelBuilder::~KernelBuilder() {
  func::ReturnOp::create(b);
}

Value KernelBuilder::argument(int64_t i) {
  return load(function.getArgument(0), index(i), LLVM::LLVMPointerType::get(b.getContext()));
}
Value KernelBuilder::scalar(int64_t i) {
  return load(function.getArgument(1), index(i), b.getI64Type());
}

Value KernelBuilder::index(int64_t value) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
}
Value KernelBuilder::real(double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
}
Type KernelBuilder::vectorType() const {
  return VectorType::get({lanes}, Builder(b.getContext()).getF32Type());
}
Type KernelBuilder::intVectorType() const {
  return VectorType::get({lanes}, Builder(b.getContext()).getI32Type());
}
Value KernelBuilder::splat(double value) {
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(vectorType()), static_cast<float>(value)));
}
Value KernelBuilder::splatInt(int64_t value) {
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(intVectorType()), static_cast<int32_t>(value)));
}
Value KernelBuilder::splat(Value value) {
  return vector::BroadcastOp::create(b, VectorType::get({lanes}, value.getType()), value);
}

Value KernelBuilder::addI(Value l, Value r) {
  return arith::AddIOp::create(b, l, r);
}
Value KernelBuilder::mulI(Value l, Value r) {
  return arith::MulIOp::create(b, l, r);
}
Value KernelBuilder::divI(Value l, Value r) {
  return arith::DivUIOp::create(b, l, r);
}
Value KernelBuilder::remI(Value l, Value r) {
  return arith::RemUIOp::create(b, l, r);
}
Value KernelBuilder::minI(Value l, Value r) {
  return arith::MinSIOp::create(b, l, r);
}
Value KernelBuilder::add(Value l, Value r) {
  return arith::AddFOp::create(b, l, r);
}
Value KernelBuilder::sub(Value l, Value r) {
  return arith::SubFOp::create(b, l, r);
}
Value KernelBuilder::mul(Value l, Value r) {
  return arith::MulFOp::create(b, l, r);
}
Value KernelBuilder::div(Value l, Value r) {
  return arith::DivFOp::create(b, l, r);
}

Value KernelBuilder::address(Value base, Value element, Type type) {
  return LLVM::GEPOp::create(b, base.getType(), type, base, ValueRange(element));
}
Value KernelBuilder::load(Value base, Value element, Type type) {
  return LLVM::LoadOp::create(b, type, address(base, element, type));
}
void KernelBuilder::store(Value value, Value base, Value element) {
  LLVM::StoreOp::create(b, value, address(base, element, value.getType()));
}
Value KernelBuilder::loadChunk(Value base, Value element, Value mask) {
  Value from = address(base, element, b.getF32Type());
  if (!mask)
    return LLVM::LoadOp::create(b, vectorType(), from, /*alignment=*/4);
  return LLVM::MaskedLoadOp::create(b, vectorType(), from, mask, zeroVector(),
                                    b.getI32IntegerAttr(4));
}
void KernelBuilder::storeChunk(Value value, Value base, Value element, Value mask) {
  Value to = address(base, element, b.getF32Type());
  if (!mask)
    LLVM::StoreOp::create(b, value, to, /*alignment=*/4);
  else
    LLVM::MaskedStoreOp::create(b, value, to, mask, b.getI32IntegerAttr(4));
}

SmallVector<Value> KernelBuilder::loop(Value from, Value to, int64_t step, ValueRange carried,
                                       function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, from, to, index(step), carried);
  OpBuilder::InsertionGuard guard(b);
  // The builder makes the terminator itself when nothing is carried.
  if (carried.empty())
    loop.getBody()->getTerminator()->erase();
  b.setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(b, next);
  return SmallVector<Value>(loop.getResults());
}

Value KernelBuilder::maskBelow(Value count) {
  Value narrow = arith::TruncIOp::create(b, b.getI32Type(), count);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, laneNumbers(), splat(narrow));
}

SmallVector<Value>
KernelBuilder::chunkLoop(int64_t columns, ValueRange carried,
                         function_ref<SmallVector<Value>(Chunk, ValueRange)> body) {
  int64_t whole = columns / lanes * lanes;
  SmallVector<Value> values(carried);
  if (whole > 0)
    values = loop(index(0), index(whole), lanes, values, [&](Value column, ValueRange inner) {
      return body(Chunk{column, Value()}, inner);
    });
  if (whole < columns)
    values = body(Chunk{index(whole), maskBelow(index(columns - whole))}, values);
  return values;
}

SmallVector<Value>
KernelBuilder::rangeLoop(Value from, Value to, ValueRange carried,
                         function_ref<SmallVector<Value>(Chunk, ValueRange)> body) {
  Value count = arith::SubIOp::create(b, to, from);
  Value whole = mulI(divI(count, index(lanes)), index(lanes));
  Value middle = addI(from, whole);
  SmallVector<Value> values =
      loop(from, middle, lanes, carried,
           [&](Value column, ValueRange inner) { return body(Chunk{column, Value()}, inner); });
  // At most one short chunk: a loop of zero or one round.
  Value rest = arith::SubIOp::create(b, to, middle);
  return loop(middle, to, lanes, values, [&](Value column, ValueRange inner) {
    return body(Chunk{column, maskBelow(rest)}, inner);
  });
}

Value KernelBuilder::fold(Value vector, bool maximum) {
  for (int64_t width = lanes / 2; width >= 1; width /= 2) {
    SmallVector<int64_t> low(width), high(width);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), width);
    Value left = vector::ShuffleOp::create(b, vector, vector, low);
    Value right = vector::ShuffleOp::create(b, vector, vector, high);
    vector = maximum ? arith::MaximumFOp::create(b, left, right).getResult()
                     : arith::AddFOp::create(b, left, right).getResult();
  }
  return vector::ExtractOp::create(b, vector, 0);
}

Value KernelBuilder::keepMask(Value random, Value site, Value example, Value first, double rate) {
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  auto narrow = [&](Value v) -> Value { return arith::TruncIOp::create(b, i32, v); };
  auto wide = [&](uint32_t v) { return splatInt(static_cast<int32_t>(v)); };
  Value seed = load(random, index(0), i64), step = load(random, index(1), i64);
  Value high = arith::ShRUIOp::create(b, seed, index(32));
  Value key0 = splat(narrow(seed)), key1 = splat(narrow(high));

  // Elements of an example are numbered below 2^32.
  Value element = arith::AddIOp::create(b, splat(narrow(first)), laneNumbers());
  Value x0 = arith::ShRUIOp::create(b, element, wide(2));
  Value word = arith::AndIOp::create(b, element, wide(3));
  Value x1 = splat(narrow(example)), x2 = splat(narrow(step)), x3 = splat(narrow(site));

  // Salmon et al., "Parallel random numbers: as easy as 1, 2, 3": ten rounds.
  for (int round = 0; round < 10; ++round) {
    auto first64 = arith::MulUIExtendedOp::create(b, x0, wide(0xD2511F53u));
    auto second64 = arith::MulUIExtendedOp::create(b, x2, wide(0xCD9E8D57u));
    auto mix = [&](Value h, Value x, Value k) -> Value {
      return arith::XOrIOp::create(b, arith::XOrIOp::create(b, h, x).getResult(), k);
    };
    Value y0 = mix(second64.getHigh(), x1, key0), y2 = mix(first64.getHigh(), x3, key1);
    x1 = second64.getLow();
    x3 = first64.getLow();
    x0 = y0;
    x2 = y2;
    key0 = arith::AddIOp::create(b, key0, wide(0x9E3779B9u));
    key1 = arith::AddIOp::create(b, key1, wide(0xBB67AE85u));
  }
  auto isWord = [&](int64_t w) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, word, splatInt(w));
  };
  Value chosen = arith::SelectOp::create(b, isWord(0), x0, x1);
  chosen = arith::SelectOp::create(b, isWord(2), x2, chosen);
  chosen = arith::SelectOp::create(b, isWord(3), x3, chosen);
  // (w >> 8) * 2^-24 >= rate, in whole numbers.
  Value top = arith::ShRUIOp::create(b, chosen, wide(8));
  int64_t limit = static_cast<int64_t>(std::ceil(rate * 16777216.0));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, top, splatInt(limit));
}

Value KernelBuilder::exp(Value x) {
  return math::ExpOp::create(b, x);
}

Value KernelBuilder::laneNumbers() {
  SmallVector<int32_t> numbers(lanes);
  std::iota(numbers.begin(), numbers.end(), 0);
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(intVectorType()), ArrayRef<int32_t>(numbers)));
}

void KernelBuilder::stripLoop(int64_t strip, int64_t columns,
                              function_ref<void(Value from, Value to)> body) {
  loop(begin, end, 1, {}, [&](Value unit, ValueRange) -> SmallVector<Value> {
    Value from = mulI(unit, index(strip));
    body(from, minI(addI(from, index(strip)), index(columns)));
    return {};
  });
}

} // namespace ftlm::kernel
