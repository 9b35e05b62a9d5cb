#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/cpu/elementary.h"

namespace weft::cpu {
namespace {

using V = LaneBuilder::V;

constexpr double kLog2E = 0x1.715476p+0;
// ln 2 in two parts; the high one has 9 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440e-4;
// Adding it rounds to a whole number and leaves that in the low bits.
constexpr double kWholeF32 = 0x1.8p23;
constexpr double kBias = 127;               // of an exponent
constexpr double kLeastNormal = -87.33654;  // its exponential is 2^-126

struct Scalef {
  llvm::Intrinsic::ID id = llvm::Intrinsic::not_intrinsic;
  llvm::Intrinsic::ID reduce = llvm::Intrinsic::not_intrinsic;
  bool has_rounding = false;
};

/// AVX-512's p * 2^floor(n), and x - floor(x), for the vector widths that the machine has.
Scalef scalef_for(const LaneBuilder& k) {
  if (!k.isa().avx512) return {};
  switch (k.lanes()) {
    case 16:
      return {llvm::Intrinsic::x86_avx512_mask_scalef_ps_512,
              llvm::Intrinsic::x86_avx512_mask_reduce_ps_512, true};
    case 8:
      return {llvm::Intrinsic::x86_avx512_mask_scalef_ps_256,
              llvm::Intrinsic::x86_avx512_mask_reduce_ps_256, false};
    case 4:
      return {llvm::Intrinsic::x86_avx512_mask_scalef_ps_128,
              llvm::Intrinsic::x86_avx512_mask_reduce_ps_128, false};
    default:
      return {};
  }
}

V all_lanes(const LaneBuilder& k) {
  const unsigned bits = k.lanes() == 16 ? 16 : 8;
  return llvm::ConstantInt::getAllOnesValue(k.b.getIntNTy(bits));
}

/// A mask register of what was compared.
V lanes_where(const LaneBuilder& k, V compared) {
  if (k.lanes() == 4) {
    V none = llvm::ConstantInt::getFalse(compared->getType());
    compared = k.b.CreateShuffleVector(compared, none, {0, 1, 2, 3, 4, 5, 6, 7});
  }
  return k.b.CreateBitCast(compared, all_lanes(k)->getType());
}

/// Zero where the lane of `mask` is not set.
V scale_by_power(const LaneBuilder& k, const Scalef& scalef, V p, V n, V mask) {
  std::vector<V> operands{p, n, k.f32(0), mask};
  if (scalef.has_rounding) operands.push_back(k.b.getInt32(4));
  return k.b.CreateIntrinsic(scalef.id, {}, operands);
}

/// x - floor(x).
V fraction(const LaneBuilder& k, const Scalef& scalef, V x) {
  constexpr int kFloorQuietly = 9;  // immediate of VREDUCEPS: towards -inf, no exception
  std::vector<V> operands{x, k.b.getInt32(kFloorQuietly), k.f32(0), all_lanes(k)};
  if (scalef.has_rounding) operands.push_back(k.b.getInt32(4));
  return k.b.CreateIntrinsic(scalef.reduce, {}, operands);
}

/// 2^n of the whole number n + kBias, -126..127, in the last 9 bits. What stands above them is
/// shifted out.
V power_of_biased(const LaneBuilder& k, V biased) {
  return k.as_f32(k.b.CreateShl(biased, k.integer(32, 23)));
}

/// p * 2^n of the whole number n + 2 * kBias, -150..129, in the last bits of kWholeF32: in two
/// steps that round once where the result is denormal.
V scale_in_steps(const LaneBuilder& k, V p, V biased) {
  V half = k.b.CreateLShr(biased, k.integer(32, 1));
  V rest = k.b.CreateSub(biased, half);
  return k.mul(k.mul(p, power_of_biased(k, half)), power_of_biased(k, rest));
}

// 1 + r + r^2 q(r) for |r| <= ln(2)/2, (e^r - 1 - r) / r^2: 2^-28.
V exp_series(const LaneBuilder& k, V r) {
  return k.polynomial(
      r, {0.0013950464, 0.00836888928, 0.0416662062, 0.166665188, 0.50000001, 1.0, 1.0});
}

/// exp(x) where -104 <= x <= 89, and of NaN.
V exp_within(const LaneBuilder& k, V x) {
  const Scalef scalef = scalef_for(k);
  const bool has_scalef = scalef.id != llvm::Intrinsic::not_intrinsic;
  V whole = k.f32(has_scalef ? kWholeF32 : kWholeF32 + 2 * kBias);
  V shifted = k.mul_add(x, k.f32(kLog2E), whole);
  V n = k.sub(shifted, whole);
  V r = k.mul_add(n, k.f32(-kLn2High), x);
  r = k.mul_add(n, k.f32(-kLn2Low), r);
  V p = exp_series(k, r);
  if (has_scalef) return scale_by_power(k, scalef, p, n, all_lanes(k));
  return scale_in_steps(k, p, k.bits(shifted));
}

}  // namespace

V exp_f32(const LaneBuilder& k, V x) {
  return exp_within(k, k.at_most(k.at_least(x, k.f32(-104)), k.f32(89)));
}

// 2^t on [0, 1) and on [-1/2, 1/2]: 2^-23.7.
V exp_nonpositive(const LaneBuilder& k, V x) {
  if (const Scalef scalef = scalef_for(k); scalef.id != llvm::Intrinsic::not_intrinsic) {
    V t = k.mul(x, k.f32(kLog2E));
    V p = k.polynomial(fraction(k, scalef, t), {0.00187757591, 0.0089893425, 0.0558263153,
                                                0.240153618, 0.693153073, 0.999999925});
    return scale_by_power(k, scalef, p, t, lanes_where(k, k.b.CreateFCmpUGE(t, k.f32(-126))));
  }
  V shifted = k.mul_add(x, k.f32(kLog2E), k.f32(kWholeF32 + kBias));
  V r = k.mul_add(x, k.f32(kLog2E), k.neg(k.sub(shifted, k.f32(kWholeF32 + kBias))));
  V p = k.polynomial(
      r, {0.00132764666, 0.00967554169, 0.0555071328, 0.240221197, 0.693146967, 1.00000007});
  // What would be denormal is 0, whatever came out where the exponent wrapped.
  V normal = k.b.CreateFCmpUGE(x, k.f32(kLeastNormal));
  return k.select(normal, k.mul(p, power_of_biased(k, k.bits(shifted))), k.f32(0));
}

V log_f32(const LaneBuilder& k, V x) {
  llvm::IRBuilder<>& b = k.b;
  V denormal = k.lt(x, k.f32(0x1p-126));
  V normal = k.select(denormal, k.mul(x, k.f32(0x1p23)), x);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
  V bits = k.bits(normal);
  V shifted = b.CreateSub(bits, k.bits(k.f32(0x1.6a09e6p-1)));
  V e = b.CreateAShr(shifted, k.integer(32, 23));
  V m = k.as_f32(b.CreateSub(bits, b.CreateShl(e, k.integer(32, 23))));
  e = b.CreateSub(e, k.select(denormal, k.integer(32, 23), k.integer(32, 0)));
  V n = b.CreateSIToFP(e, k.f32_type());
  V f = k.sub(m, k.f32(1));
  // (log(1+f) - f + f^2/2) / f^3: 2^-30.
  V q = k.polynomial(f, {0.0691710546, -0.117905702, 0.118725237, -0.123841835, 0.142187109,
                         -0.166692627, 0.200022236, -0.249999863, 0.333333105});
  V square = k.mul(f, f);
  V y = k.mul(k.mul(q, f), square);
  y = k.mul_add(n, k.f32(kLn2Low), y);
  y = k.mul_add(square, k.f32(-0.5), y);
  y = k.mul_add(n, k.f32(kLn2High), k.add(f, y));
  V infinity = k.f32(std::numeric_limits<double>::infinity());
  y = k.select(k.eq(x, infinity), x, y);
  y = k.select(k.eq(x, k.f32(0)), k.neg(infinity), y);
  V invalid = b.CreateFCmpULT(x, k.f32(0));
  return k.select(invalid, k.f32(std::numeric_limits<double>::quiet_NaN()), y);
}

V tanh_f32(const LaneBuilder& k, V x) {
  V a = k.abs(x);
  // Near zero the odd series, beyond 1 - 2/(e^2x + 1). (tanh x - x)/x^3: 2^-32.
  V z = k.mul(x, x);
  V q = k.polynomial(
      z, {0.0021228751, -0.00815646791, 0.0216927058, -0.0539454014, 0.133331961, -0.333333306});
  V small = k.mul_add(k.mul(q, z), x, x);
  V e = exp_within(k, k.mul(k.at_most(a, k.f32(10)), k.f32(2)));
  V large = k.sub(k.f32(1), k.div(k.f32(2), k.add(e, k.f32(1))));
  return k.copy_sign(k.select(k.lt(a, k.f32(0.625)), small, large), x);
}

V sigmoid_f32(const LaneBuilder& k, V x) {
  V e = exp_within(k, k.at_least(k.neg(k.abs(x)), k.f32(-104)));
  V top = k.select(k.lt(x, k.f32(0)), e, k.f32(1));
  return k.div(top, k.add(e, k.f32(1)));
}

V erf_f32(const LaneBuilder& k, V x) {
  V a = k.at_most(k.abs(x), k.f32(3.95));
  V z = k.mul(x, x);
  // erf(x)/x - 1 as a series of x^2 below 1: 2^-29.
  V p = k.polynomial(z, {7.88911916e-05, -0.00080208457, 0.00518953646, -0.0268544456, 0.112836002,
                         -0.376126271, 0.128379166});
  V small = k.mul_add(p, x, x);
  // (log erfc(a))/a + 1 on [1, 3.95]: 2^-35.
  V q = k.polynomial(a, {1.86064892e-06, -3.01969901e-05, 0.000191801883, -0.000421866944,
                         -0.00200405478, 0.0215390191, -0.10441472, -0.635978365, -0.128488988});
  V logarithm = k.mul_add(q, a, k.neg(a));
  V large = k.copy_sign(k.sub(k.f32(1), exp_within(k, logarithm)), x);
  return k.select(k.lt(k.abs(x), k.f32(1)), small, large);
}

}  // namespace weft::cpu
