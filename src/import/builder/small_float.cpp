#include "import/builder/small_float.h"

#include <cmath>

namespace weft::onnx {
namespace {

using Specials = SmallFloat::Specials;

constexpr int kMantissa = 23, kBias = 127;  // of float32
constexpr int64_t kNanBits = 0x7fc00000, kInfinityBits = 0x7f800000, kMagnitude = 0x7fffffff;

int64_t sign_of(const SmallFloat& f) { return int64_t{1} << (f.exponent_bits + f.mantissa_bits); }

int64_t infinity_code(const SmallFloat& f) {
  return sign_of(f) - (int64_t{1} << f.mantissa_bits);  // of IEEE's
}

/// The code that NaN becomes, without its sign: with infinities the quiet one. Formats without NaN
/// make it -0.
int64_t nan_code(const SmallFloat& f) {
  switch (f.specials) {
    case Specials::kNone:
    case Specials::kNegativeZero:
      return sign_of(f);
    case Specials::kInfinity:
      return infinity_code(f) + (int64_t{1} << (f.mantissa_bits - 1));
    case Specials::kNan:
    case Specials::kPowers:
      break;
  }
  return sign_of(f) - 1;
}

int64_t largest_code(const SmallFloat& f) {
  if (f.specials == Specials::kInfinity) return infinity_code(f) - 1;
  return f.specials == Specials::kNan ? sign_of(f) - 2 : sign_of(f) - 1;
}

/// What a number beyond the range becomes.
int64_t beyond_code(const SmallFloat& f, bool saturates) {
  if (saturates || f.specials == Specials::kNone) return largest_code(f);
  return f.specials == Specials::kInfinity ? infinity_code(f) : nan_code(f);
}

/// Arithmetic on the bits of values, as int32.
struct Bits {
  GraphBuilder& b;

  ValueId number(int64_t n) const { return b.scalar_int(DType::kI32, n); }
  ValueId with(ScalarOp op, ValueId v, int64_t n) const { return b.binary(op, v, number(n)); }
  ValueId as_float(ValueId v) const { return b.bitcast(v, DType::kF32); }
  /// v where `op(x, n)` holds, else `otherwise`.
  ValueId where(ScalarOp op, ValueId x, int64_t n, ValueId v, ValueId otherwise) const {
    return b.select(with(op, x, n), v, otherwise);
  }
};

/// 0 is 2^-127, a float32 without leading one.
ValueId decode_power(const Bits& bits, ValueId code) {
  const ValueId power = bits.with(ScalarOp::kShl, code, kMantissa);
  const ValueId least = bits.number(int64_t{1} << (kMantissa - 1));
  const ValueId number = bits.where(ScalarOp::kEq, code, 0, least, power);
  return bits.as_float(bits.where(ScalarOp::kEq, code, 255, bits.number(kNanBits), number));
}

/// The exponent rounds as the mantissa behind it says: a number below float32's normal ones has no
/// leading one, so that its mantissa starts at 2^-127.
ValueId encode_power(const Bits& bits, ValueId v, SmallFloatRounding rounding) {
  constexpr int64_t kHalf = int64_t{1} << (kMantissa - 1);
  using Power = SmallFloatRounding::Power;
  const ValueId all = bits.b.bitcast(v, DType::kI32);
  const ValueId mantissa = bits.with(ScalarOp::kAnd, all, (int64_t{1} << kMantissa) - 1);
  ValueId code = bits.with(ScalarOp::kShr, all, kMantissa);
  const ValueId one = bits.number(1), zero = bits.number(0);
  const auto carry = [&](int64_t above) {
    return bits.where(ScalarOp::kGt, mantissa, above, one, zero);
  };
  if (rounding.power != Power::kDown) {
    const bool up = rounding.power == Power::kUp;
    const ValueId of_small = carry(up ? kHalf : kHalf + kHalf / 2 - 1);
    const ValueId of_others = carry(up ? 0 : kHalf - 1);
    code = bits.b.add(code, bits.where(ScalarOp::kEq, code, 0, of_small, of_others));
  }
  const ValueId beyond = bits.number(rounding.saturates ? 254 : 255);
  code = bits.where(ScalarOp::kGe, code, 255, beyond, code);
  if (!rounding.saturates)
    code = bits.where(ScalarOp::kLt, all, kHalf, bits.number(255), code);  // 0 and below 2^-127
  const ValueId undefined = bits.b.binary(ScalarOp::kOr, bits.with(ScalarOp::kLt, all, 0),
                                          bits.with(ScalarOp::kGt, all, kInfinityBits));
  return bits.b.select(undefined, bits.number(255), code);
}

}  // namespace

ValueId decode_small_float(GraphBuilder& b, ValueId v, const SmallFloat& f) {
  const Bits bits{b};
  const ValueId code = b.convert(v, DType::kI32);
  if (f.specials == Specials::kPowers) return decode_power(bits, code);
  const ValueId magnitude = bits.with(ScalarOp::kAnd, code, sign_of(f) - 1);
  const ValueId shifted = bits.with(ScalarOp::kShl, magnitude, kMantissa - f.mantissa_bits);
  const auto raised = [&](int64_t exponents) {
    return bits.as_float(bits.with(ScalarOp::kAdd, shifted, exponents << kMantissa));
  };
  // Without a leading one the mantissa counts from 0: it is put behind one, which is taken away.
  const double least_normal = std::ldexp(1.0, 1 - f.bias);
  ValueId number =
      b.select(bits.with(ScalarOp::kLt, magnitude, int64_t{1} << f.mantissa_bits),
               b.sub(raised(kBias + 1 - f.bias), least_normal), raised(kBias - f.bias));
  number = b.bitcast(number, DType::kI32);
  const auto special = [&](ValueId of, int64_t at, int64_t is) {
    number = bits.where(ScalarOp::kEq, of, at, bits.number(is), number);
  };
  if (f.specials == Specials::kInfinity) {
    number = bits.where(ScalarOp::kGt, magnitude, infinity_code(f), bits.number(kNanBits), number);
    special(magnitude, infinity_code(f), kInfinityBits);
  } else if (f.specials == Specials::kNan) {
    special(magnitude, nan_code(f), kNanBits);
  }
  const ValueId sign = bits.with(ScalarOp::kShl, bits.with(ScalarOp::kAnd, code, sign_of(f)),
                                 31 - f.exponent_bits - f.mantissa_bits);
  number = b.binary(ScalarOp::kOr, number, sign);
  if (f.specials == Specials::kNegativeZero) special(code, nan_code(f), kNanBits);
  return bits.as_float(number);
}

ValueId encode_small_float(GraphBuilder& b, ValueId v, const SmallFloat& f,
                           SmallFloatRounding rounding) {
  const Bits bits{b};
  v = b.convert(v, DType::kF32);
  if (f.specials == Specials::kPowers)
    return b.convert(encode_power(bits, v, rounding), DType::kU8);
  const ValueId all = b.bitcast(v, DType::kI32);
  const ValueId magnitude = bits.with(ScalarOp::kAnd, all, kMagnitude);
  const int dropped = kMantissa - f.mantissa_bits;
  // To the nearest, ties to even: half of the last place is added, less if that place is even.
  const ValueId odd = bits.with(ScalarOp::kAnd, bits.with(ScalarOp::kShr, magnitude, dropped), 1);
  const ValueId rounded =
      b.add(bits.with(ScalarOp::kAdd, magnitude, (int64_t{1} << (dropped - 1)) - 1), odd);
  const ValueId normal = bits.with(ScalarOp::kSub, bits.with(ScalarOp::kShr, rounded, dropped),
                                   int64_t{kBias - f.bias} << f.mantissa_bits);
  const ValueId absolute = bits.as_float(magnitude);
  const ValueId small = b.convert(
      b.unary(ScalarOp::kRoundEven, b.mul(absolute, std::ldexp(1.0, f.bias - 1 + f.mantissa_bits))),
      DType::kI32);
  const ValueId least_normal = b.scalar(DType::kF32, std::ldexp(1.0, 1 - f.bias));
  ValueId code = b.select(b.binary(ScalarOp::kLt, absolute, least_normal), small, normal);
  const ValueId beyond = bits.number(beyond_code(f, rounding.saturates));
  code = bits.where(ScalarOp::kGt, code, largest_code(f), beyond, code);
  const ValueId nan = bits.number(nan_code(f));
  code = bits.where(ScalarOp::kGt, magnitude, kInfinityBits, nan, code);
  const ValueId sign =
      bits.with(ScalarOp::kAnd,
                bits.with(ScalarOp::kShr, all, 31 - f.exponent_bits - f.mantissa_bits), sign_of(f));
  ValueId with_sign = b.binary(ScalarOp::kOr, code, sign);
  if (f.specials == Specials::kNegativeZero)
    with_sign = bits.where(ScalarOp::kEq, code, 0, code, with_sign);
  return b.convert(with_sign, DType::kU8);
}

}  // namespace weft::onnx
