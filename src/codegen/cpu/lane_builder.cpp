#include "codegen/cpu/lane_builder.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>

#include <algorithm>

namespace weft::cpu {

using llvm::Intrinsic::ID;
using V = LaneBuilder::V;

Isa::Isa(const Target& target) : vector_bytes(target.vector_bytes) {
  const auto has = [&](const char* name) {
    return std::find(target.features.begin(), target.features.end(), name) != target.features.end();
  };
  fma = has("fma");
  f16c = has("f16c");
  sse41 = has("sse4.1");
  avx2 = has("avx2");
  avx512 =
      has("avx512f") && has("avx512bw") && has("avx512cd") && has("avx512dq") && has("avx512vl");
  avx512vnni = avx512 && has("avx512vnni");
  avx512bf16 = avx512 && has("avx512bf16");
  avx512vbmi = avx512 && has("avx512vbmi");
  vnni = avx512vnni || has("avxvnni");
}

llvm::Type* LaneBuilder::wide(llvm::Type* element) const {
  return lanes_ == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
}

llvm::Type* LaneBuilder::bits_type(V value) const {
  return int_type(value->getType()->getScalarSizeInBits());
}

V LaneBuilder::f32(double value) const { return llvm::ConstantFP::get(f32_type(), value); }
V LaneBuilder::f64(double value) const { return llvm::ConstantFP::get(f64_type(), value); }
V LaneBuilder::like(V value, double number) const {
  return llvm::ConstantFP::get(value->getType(), number);
}
V LaneBuilder::integer(unsigned bits, int64_t value) const {
  return llvm::ConstantInt::get(int_type(bits),
                                llvm::APInt(64, static_cast<uint64_t>(value)).sextOrTrunc(bits));
}

V LaneBuilder::mul_add(V x, V y, V z) const {
  if (!isa_.fma) return b.CreateFAdd(b.CreateFMul(x, y), z);
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

V LaneBuilder::polynomial(V x, std::span<const double> highest_first) const {
  V sum = like(x, highest_first[0]);
  for (const double c : highest_first.subspan(1)) sum = mul_add(sum, x, like(x, c));
  return sum;
}

V product_rest(const LaneBuilder& k, V x, V y, V p) {
  llvm::IRBuilder<>& b = k.b;
  if (k.isa().fma) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, k.neg(p)});
  }
  // Each factor in two halves of 26 bits, whose products are exact (Dekker).
  const auto high_half = [&](V v) {
    return k.as_f64(b.CreateAnd(k.bits(v), k.integer(64, ~((int64_t{1} << 27) - 1))));
  };
  V xh = high_half(x), yh = high_half(y);
  V xl = k.sub(x, xh), yl = k.sub(y, yh);
  V rest = k.sub(k.mul(xh, yh), p);
  rest = k.add(k.add(rest, k.mul(xh, yl)), k.mul(xl, yh));
  return k.add(rest, k.mul(xl, yl));
}

/// The sum of the exact product, in float64, rounded to odd: rounding that to float32 is then the
/// one rounding (Boldo and Melquiond).
V LaneBuilder::fused_f32(V x, V y, V z) const {
  V product = mul(to_f64(x), to_f64(y)), addend = to_f64(z);
  V sum = add(product, addend);
  V part = sub(sum, product);
  V rest = add(sub(product, sub(sum, part)), sub(addend, part));
  V sum_bits = bits(sum);
  V is_even = b.CreateICmpEQ(b.CreateAnd(sum_bits, integer(64, 1)), integer(64, 0));
  V inexact = b.CreateFCmpONE(rest, f64(0));
  V away = b.CreateICmpSGE(b.CreateXor(bits(rest), sum_bits), integer(64, 0));
  V odd = b.CreateAdd(sum_bits, b.CreateSelect(away, integer(64, 1), integer(64, -1)));
  return to_f32(as_f64(b.CreateSelect(b.CreateAnd(is_even, inexact), odd, sum_bits)));
}

V LaneBuilder::fused(V x, V y, V z) const {
  if (isa_.fma) return mul_add(x, y, z);
  if (x->getType()->getScalarType()->isFloatTy()) return fused_f32(x, y, z);
  // Product and sum each as a pair; adding the small parts before the large one leaves one rounding
  // in all but cases of a tie between pairs. Infinite or NaN: the plain form.
  V product = mul(x, y), low = product_rest(*this, x, y, product);
  V sum = add(product, z), part = sub(sum, product);
  V rest = add(sub(product, sub(sum, part)), sub(z, part));
  V exact = add(sum, add(rest, low));
  return select(eq(sub(exact, exact), f64(0)), exact, sum);
}

V LaneBuilder::extremum(V x, V y, llvm::CmpInst::Predicate better) const {
  if (llvm::isa<llvm::Constant>(x)) {
    // Only y can be NaN: taken unless it compares and is no better.
    const auto unordered =
        better == llvm::CmpInst::FCMP_OLT ? llvm::CmpInst::FCMP_ULT : llvm::CmpInst::FCMP_UGT;
    V taken = select(b.CreateFCmp(unordered, y, x), y, x);
    return select(is_nan(x), x, taken);  // folds away but for a constant NaN
  }
  // The machine's instruction gives x when either is NaN, which leaves NaN in y to be looked at.
  V machine = select(b.CreateFCmp(better, y, x), y, x);
  if (llvm::isa<llvm::Constant>(y)) return select(is_nan(y), y, machine);
  return select(is_nan(y), y, fence(machine));
}

V LaneBuilder::power_of_two(V n) const {
  const unsigned width = n->getType()->getScalarSizeInBits();
  const int mantissa = width == 32 ? 23 : 52, bias = width == 32 ? 127 : 1023;
  V exponent = b.CreateShl(b.CreateAdd(n, integer(width, bias)), integer(width, mantissa));
  return width == 32 ? as_f32(exponent) : as_f64(exponent);
}

V LaneBuilder::round_by_magic(V x, Rounding rounding) const {
  const bool single = x->getType()->getScalarType()->isFloatTy();
  V limit = like(x, single ? 0x1p23 : 0x1p52);
  V magnitude = abs(x);
  V nearest = copy_sign(sub(add(magnitude, limit), limit), x);
  V one = like(x, 1), result = nearest;
  switch (rounding) {
    case Rounding::kFloor:
      result = select(gt(nearest, x), sub(nearest, one), nearest);
      break;
    case Rounding::kCeil:
      result = select(lt(nearest, x), add(nearest, one), nearest);
      break;
    case Rounding::kTrunc:
      result = select(gt(abs(nearest), magnitude), sub(nearest, copy_sign(one, x)), nearest);
      break;
    case Rounding::kNearestEven:
      break;
  }
  // Zero keeps the sign; from the limit on, and NaN, all numbers are whole.
  return select(lt(magnitude, limit), copy_sign(result, x), x);
}

V LaneBuilder::round(V x, Rounding rounding) const {
  if (!isa_.sse41) return round_by_magic(x, rounding);
  ID id = llvm::Intrinsic::roundeven;
  if (rounding == Rounding::kFloor) id = llvm::Intrinsic::floor;
  if (rounding == Rounding::kCeil) id = llvm::Intrinsic::ceil;
  if (rounding == Rounding::kTrunc) id = llvm::Intrinsic::trunc;
  return b.CreateUnaryIntrinsic(id, x);
}

V LaneBuilder::any(V condition) const {
  return lanes_ == 1 ? condition : b.CreateOrReduce(condition);
}

llvm::BasicBlock* LaneBuilder::new_block(const char* name) const {
  return llvm::BasicBlock::Create(b.getContext(), name, b.GetInsertBlock()->getParent());
}

}  // namespace weft::cpu
