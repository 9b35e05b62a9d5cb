#include "codegen/cpu/scalar_emitter.h"

#include <limits>

#include "codegen/cpu/elementary.h"
#include "support/check.h"

namespace weft::cpu {
namespace {

using V = LaneBuilder::V;

unsigned width_of(V value) { return value->getType()->getScalarSizeInBits(); }

V constant_like(const LaneBuilder& k, V value, int64_t number) {
  return k.integer(width_of(value), number);
}

/// Division where the divisor is 0 or -1 must not trap: it is replaced by 1 and the result chosen.
V divide_integers(const LaneBuilder& k, bool is_signed, bool remainder, V x, V y) {
  llvm::IRBuilder<>& b = k.b;
  V zero = constant_like(k, x, 0), one = constant_like(k, x, 1);
  V by_zero = b.CreateICmpEQ(y, zero);
  V by_minus_one = is_signed ? b.CreateICmpEQ(y, constant_like(k, x, -1)) : nullptr;
  V special = is_signed ? b.CreateOr(by_zero, by_minus_one) : by_zero;
  V divisor = k.select(special, one, y);
  V result = is_signed ? (remainder ? b.CreateSRem(x, divisor) : b.CreateSDiv(x, divisor))
                       : (remainder ? b.CreateURem(x, divisor) : b.CreateUDiv(x, divisor));
  if (remainder) return k.select(special, zero, result);
  if (is_signed) result = k.select(by_minus_one, b.CreateNeg(x), result);
  return k.select(by_zero, zero, result);
}

V shift(const LaneBuilder& k, ScalarOp op, bool is_signed, V x, V y) {
  llvm::IRBuilder<>& b = k.b;
  V inside = b.CreateICmpULT(y, constant_like(k, y, width_of(y)));
  V amount = k.select(inside, y, constant_like(k, y, 0));
  V shifted = op == ScalarOp::kShl ? b.CreateShl(x, amount)
              : is_signed          ? b.CreateAShr(x, amount)
                                   : b.CreateLShr(x, amount);
  return k.select(inside, shifted, constant_like(k, x, 0));
}

/// On words: half as wide as the lanes, so that an operation of the processor works on twice as
/// many.
V threefry(const LaneBuilder& k, V counter, V key) {
  constexpr uint64_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  llvm::IRBuilder<>& b = k.b;
  llvm::Type* wide = counter->getType();
  llvm::Type* word = wide->getWithNewBitWidth(32);
  V half = constant_like(k, counter, 32);
  const auto low = [&](V x) { return b.CreateTrunc(x, word); };
  const auto high = [&](V x) { return b.CreateTrunc(b.CreateLShr(x, half), word); };
  const auto number = [&](uint64_t n) { return llvm::ConstantInt::get(word, n); };
  V first = low(key), second = high(key);
  V parity = b.CreateXor(b.CreateXor(first, second), number(0x1BD11BDA));
  V schedule[3] = {first, second, parity};
  V x0 = b.CreateAdd(low(counter), first), x1 = b.CreateAdd(high(counter), second);
  for (uint64_t i = 0; i < 5; ++i) {
    for (const uint64_t distance : kRotations[i % 2]) {
      x0 = b.CreateAdd(x0, x1);
      V rotated = b.CreateIntrinsic(llvm::Intrinsic::fshl, {word}, {x1, x1, number(distance)});
      x1 = b.CreateXor(rotated, x0);
    }
    x0 = b.CreateAdd(x0, schedule[(i + 1) % 3]);
    x1 = b.CreateAdd(x1, b.CreateAdd(schedule[(i + 2) % 3], number(i + 1)));
  }
  return b.CreateOr(b.CreateShl(b.CreateZExt(x1, wide), half), b.CreateZExt(x0, wide));
}

/// By squaring, while any lane has bits of its exponent left.
V power_of_integers(const LaneBuilder& k, bool is_signed, V x, V y) {
  llvm::IRBuilder<>& b = k.b;
  V zero = constant_like(k, x, 0), one = constant_like(k, x, 1);
  V negative = is_signed ? b.CreateICmpSLT(y, zero) : nullptr;
  V exponent = is_signed ? k.select(negative, zero, y) : y;
  const auto more = [&](const std::vector<V>& s) { return k.any(b.CreateICmpNE(s[2], zero)); };
  const auto step = [&](const std::vector<V>& s) {
    V odd = b.CreateICmpNE(b.CreateAnd(s[2], one), zero);
    V result = k.select(odd, b.CreateMul(s[0], s[1]), s[0]);
    return std::vector<V>{result, b.CreateMul(s[1], s[1]), b.CreateLShr(s[2], one)};
  };
  V result = k.loop({one, x, exponent}, more, step)[0];
  if (!is_signed) return result;
  // 1 and -1 have whole negative powers, the others' truncate to 0.
  V is_one = b.CreateICmpEQ(x, one), is_minus_one = b.CreateICmpEQ(x, b.CreateNeg(one));
  V even = b.CreateICmpEQ(b.CreateAnd(y, one), zero);
  V inverse = k.select(is_minus_one, k.select(even, one, x), zero);
  return k.select(negative, k.select(is_one, one, inverse), result);
}

V integer_unary(const LaneBuilder& k, ScalarOp op, bool is_signed, V x) {
  llvm::IRBuilder<>& b = k.b;
  V zero = constant_like(k, x, 0);
  switch (op) {
    case ScalarOp::kNeg:
      return b.CreateNeg(x);
    case ScalarOp::kNot:
      return b.CreateNot(x);
    case ScalarOp::kAbs:
      return is_signed ? b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse()) : x;
    case ScalarOp::kSign: {
      V positive = b.CreateZExt(is_signed ? b.CreateICmpSGT(x, zero) : b.CreateICmpNE(x, zero),
                                x->getType());
      return is_signed ? b.CreateSub(positive, b.CreateZExt(b.CreateICmpSLT(x, zero), x->getType()))
                       : positive;
    }
    default:
      return nullptr;
  }
}

V integer_binary(const LaneBuilder& k, ScalarOp op, bool is_signed, V x, V y) {
  llvm::IRBuilder<>& b = k.b;
  using namespace llvm::Intrinsic;
  switch (op) {
    case ScalarOp::kAdd:
      return b.CreateAdd(x, y);
    case ScalarOp::kSub:
      return b.CreateSub(x, y);
    case ScalarOp::kMul:
      return b.CreateMul(x, y);
    case ScalarOp::kDiv:
    case ScalarOp::kRem:
      return divide_integers(k, is_signed, op == ScalarOp::kRem, x, y);
    case ScalarOp::kPow:
      return power_of_integers(k, is_signed, x, y);
    case ScalarOp::kMin:
      return b.CreateBinaryIntrinsic(is_signed ? smin : umin, x, y);
    case ScalarOp::kMax:
      return b.CreateBinaryIntrinsic(is_signed ? smax : umax, x, y);
    case ScalarOp::kAnd:
      return b.CreateAnd(x, y);
    case ScalarOp::kOr:
      return b.CreateOr(x, y);
    case ScalarOp::kXor:
      return b.CreateXor(x, y);
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return shift(k, op, is_signed, x, y);
    case ScalarOp::kThreefry:
      return threefry(k, x, y);
    default:
      return nullptr;
  }
}

V float_unary(const LaneBuilder& k, ScalarOp op, V x) {
  using Rounding = LaneBuilder::Rounding;
  switch (op) {
    case ScalarOp::kNeg:
      return k.neg(x);
    case ScalarOp::kAbs:
      return k.abs(x);
    case ScalarOp::kSign: {
      V one = k.copy_sign(k.like(x, 1), x);
      V result = k.select(k.eq(x, k.like(x, 0)), k.like(x, 0), one);
      return k.select(k.is_nan(x), x, result);
    }
    case ScalarOp::kSqrt:
      return k.sqrt(x);
    case ScalarOp::kRsqrt:
      return k.div(k.like(x, 1), k.sqrt(x));
    case ScalarOp::kFloor:
      return k.round(x, Rounding::kFloor);
    case ScalarOp::kCeil:
      return k.round(x, Rounding::kCeil);
    case ScalarOp::kRoundEven:
      return k.round(x, Rounding::kNearestEven);
    case ScalarOp::kTrunc:
      return k.round(x, Rounding::kTrunc);
    default:
      return nullptr;
  }
}

V float_binary(const LaneBuilder& k, ScalarOp op, V x, V y) {
  switch (op) {
    case ScalarOp::kAdd:
      return k.add(x, y);
    case ScalarOp::kSub:
      return k.sub(x, y);
    case ScalarOp::kMul:
      return k.mul(x, y);
    case ScalarOp::kDiv:
      return k.div(x, y);
    case ScalarOp::kMin:
      return k.minimum(x, y);
    case ScalarOp::kMax:
      return k.maximum(x, y);
    default:
      return nullptr;
  }
}

struct Predicates {
  llvm::CmpInst::Predicate of_float, of_signed, of_unsigned;
};

Predicates predicates_of(ScalarOp op) {
  using P = llvm::CmpInst;
  switch (op) {
    case ScalarOp::kEq:
      return {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ};
    case ScalarOp::kNe:
      return {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE};
    case ScalarOp::kLt:
      return {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT};
    case ScalarOp::kLe:
      return {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE};
    case ScalarOp::kGt:
      return {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT};
    default:
      return {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE};
  }
}

V emit_predicate(const LaneBuilder& k, ScalarOp op, DType from, std::span<V const> operands) {
  llvm::IRBuilder<>& b = k.b;
  V x = operands[0];
  if (op == ScalarOp::kIsNan) return k.is_nan(x);
  if (op == ScalarOp::kIsInf) {
    return k.eq(k.abs(x), k.like(x, std::numeric_limits<double>::infinity()));
  }
  const Predicates p = predicates_of(op);
  if (is_float(from)) return b.CreateFCmp(p.of_float, x, operands[1]);
  return b.CreateICmp(is_signed_integer(from) ? p.of_signed : p.of_unsigned, x, operands[1]);
}

}  // namespace

V emit_scalar_op(const LaneBuilder& k, ScalarOp op, DType from, DType to,
                 std::span<V const> operands) {
  if (op == ScalarOp::kSelect) return k.select(operands[0], operands[1], operands[2]);
  if (op == ScalarOp::kConvert) return convert(k, from, to, operands[0]);
  if (op == ScalarOp::kBitcast) {
    return to_register(k, to,
                       k.b.CreateBitCast(to_memory(k, from, operands[0]), memory_type(k, to)));
  }
  if (scalar_op_is_predicate(op)) return emit_predicate(k, op, from, operands);
  V result = nullptr;
  const bool is_unary = operands.size() == 1;
  if (is_float(from)) {
    result =
        is_unary ? float_unary(k, op, operands[0]) : float_binary(k, op, operands[0], operands[1]);
    if (result == nullptr) result = elementary(k, op, operands);
    if (result != nullptr) result = round_to(k, from, result);
  } else {
    const bool is_signed = is_signed_integer(from);
    result = is_unary ? integer_unary(k, op, is_signed, operands[0])
                      : integer_binary(k, op, is_signed, operands[0], operands[1]);
  }
  WEFT_CHECK(result != nullptr,
             std::string(scalar_op_name(op)) + " has no code on " + std::string(dtype_name(from)));
  return result;
}

}  // namespace weft::cpu
