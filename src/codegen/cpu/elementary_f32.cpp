#include <llvm/IR/IntrinsicsX86.h>

#include <array>

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

/// e^r for |r| <= ln(2)/2, the highest power first; (e^r - 1 - r) / r^2: 2^-28.
constexpr std::array<double, 7> kExpSeries = {
    0.0013950464, 0.00836888928, 0.0416662062, 0.166665188, 0.50000001, 1.0, 1.0};

/// e^(sign x) as 2^n e^(sign r), |r| <= ln(2)/2.
struct Reduced {
  V shifted, n, r;  ///< n + whole, whose last bits hold it
};

/// `sign` is 1 or -1; n is rounded by adding `whole`, kWholeF32 and a bias.
Reduced reduce_exponent(const LaneBuilder& k, V x, double sign, double whole) {
  V shifted = k.mul_add(x, k.f32(sign * kLog2E), k.f32(whole));
  V n = k.sub(shifted, k.f32(whole));
  V r = k.mul_add(n, k.f32(-sign * kLn2High), x);
  return {shifted, n, k.mul_add(n, k.f32(-sign * kLn2Low), r)};
}

/// exp(x) where -104 <= x <= 89, and of NaN.
V exp_within(const LaneBuilder& k, V x) {
  const Scalef scalef = scalef_for(k);
  const bool has_scalef = scalef.id != llvm::Intrinsic::not_intrinsic;
  const auto [shifted, n, r] =
      reduce_exponent(k, x, 1, has_scalef ? kWholeF32 : kWholeF32 + 2 * kBias);
  V p = k.polynomial(r, kExpSeries);
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

namespace {

/// log((1 + f) * 2^n) with 1 + f in [sqrt(1/2), sqrt(2)).
V log_of_parts(const LaneBuilder& k, V f, V n) {
  // (log(1+f) - f + f^2/2) / f^3: 2^-30.
  V q = k.polynomial(f, {0.0691710546, -0.117905702, 0.118725237, -0.123841835, 0.142187109,
                         -0.166692627, 0.200022236, -0.249999863, 0.333333105});
  V square = k.mul(f, f);
  V y = k.mul(k.mul(q, f), square);
  y = k.mul_add(n, k.f32(kLn2Low), y);
  y = k.mul_add(square, k.f32(-0.5), y);
  return k.mul_add(n, k.f32(kLn2High), k.add(f, y));
}

/// The exponent e, in place (shifted by 23), that leaves x / 2^e in [sqrt(1/2), sqrt(2)).
V exponent_in_place(const LaneBuilder& k, V bits) {
  V shifted = k.b.CreateSub(bits, k.bits(k.f32(0x1.6a09e6p-1)));
  return k.b.CreateAnd(shifted, k.integer(32, -(int64_t{1} << 23)));
}

V exponent_as_f32(const LaneBuilder& k, V in_place) {
  return k.b.CreateSIToFP(k.b.CreateAShr(in_place, k.integer(32, 23)), k.f32_type());
}

/// A logarithm of which `y` holds between its pole and infinity.
V with_limits(const LaneBuilder& k, V y, V x, double pole) {
  V infinity = k.f32(std::numeric_limits<double>::infinity());
  y = k.select(k.eq(x, infinity), x, y);
  y = k.select(k.eq(x, k.f32(pole)), k.neg(infinity), y);
  V invalid = k.b.CreateFCmpULT(x, k.f32(pole));
  return k.select(invalid, k.f32(std::numeric_limits<double>::quiet_NaN()), y);
}

}  // namespace

V log_f32(const LaneBuilder& k, V x) {
  V denormal = k.lt(x, k.f32(0x1p-126));
  V bits = k.bits(k.select(denormal, k.mul(x, k.f32(0x1p23)), x));
  V in_place = exponent_in_place(k, bits);
  V f = k.sub(k.as_f32(k.b.CreateSub(bits, in_place)), k.f32(1));
  V n = k.sub(exponent_as_f32(k, in_place), k.select(denormal, k.f32(23), k.f32(0)));
  return with_limits(k, log_of_parts(k, f, n), x, 0);
}

// What 1 + x rounds off is part of f: near zero f is x.
V log1p_f32(const LaneBuilder& k, V x) {
  V u = k.add(x, k.f32(1));
  V rest = k.sub(x, k.sub(u, k.f32(1)));
  V bits = k.bits(u);
  V in_place = exponent_in_place(k, bits);
  // 2^-e; 0 where the rest does not count.
  V scale = k.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax,
                                      k.b.CreateSub(k.bits(k.f32(1)), in_place), k.integer(32, 0));
  V m = k.as_f32(k.b.CreateSub(bits, in_place));
  V f = k.mul_add(rest, k.as_f32(scale), k.sub(m, k.f32(1)));
  V y = k.copy_sign(log_of_parts(k, f, exponent_as_f32(k, in_place)), x);
  return with_limits(k, y, x, -1);
}

// 2^n (e^r - 1) + (2^n - 1), halved so that 2^n stays finite.
V expm1_f32(const LaneBuilder& k, V x) {
  V at = k.at_most(k.at_least(x, k.f32(-18)), k.f32(89));
  const auto [shifted, n, r] = reduce_exponent(k, at, 1, kWholeF32 + kBias - 1);
  V p = k.mul_add(k.mul(r, r), k.polynomial(r, std::span(kExpSeries).first(5)), r);
  V half = power_of_biased(k, k.bits(shifted));
  V y = k.mul_add(half, p, k.sub(half, k.f32(0.5)));
  return k.copy_sign(k.add(y, y), x);
}

namespace {

/// 2t / (1 + t^2) of t = x P(x^2) / (2 Q(x^2)), for odd functions that come to 1 within `limit`.
/// Where they are near 1, t is, too, and an error of t is none of theirs; where x is small, P and Q
/// are little more than constants, which are added last. `p` is P less 1, `q` is (Q - 1) / x^2, the
/// highest power first.
V odd_up_to_one(const LaneBuilder& k, V x, double limit, std::initializer_list<double> p,
                std::initializer_list<double> q) {
  V at = k.at_most(k.at_least(x, k.f32(-limit)), k.f32(limit));
  V z = k.mul(at, at);
  V top = k.mul_add(at, k.polynomial(z, p), at);
  V w = k.mul(k.polynomial(z, q), z);
  V half = k.mul(top, k.f32(0.5));
  // Q^2 + (x P / 2)^2 - 1.
  V bottom = k.mul_add(half, half, k.mul_add(w, w, k.add(w, w)));
  V y = k.div(k.mul_add(top, w, top), k.add(bottom, k.f32(1)));
  if (k.isa().fma) return y;
  return k.at_most(k.at_least(y, k.f32(-1)), k.f32(1));  // which products rounded apart may pass
}

}  // namespace

// t is tanh(x/2): 2^-27.
V tanh_f32(const LaneBuilder& k, V x) {
  return odd_up_to_one(k, x, 9.02, {0.000114270202, 0.0297745652, 0},
                       {1.22934136e-06, 0.00120662875, 0.11310786});
}

// 1 / (1 + e^-x), both sides scaled by 2^-24, so that e^104 is finite and results may be denormal.
V sigmoid_f32(const LaneBuilder& k, V x) {
  const Scalef scalef = scalef_for(k);
  const bool has_scalef = scalef.id != llvm::Intrinsic::not_intrinsic;
  V at = k.at_most(k.at_least(x, k.f32(-104)), k.f32(70));
  const auto [shifted, n, r] =
      reduce_exponent(k, at, -1, has_scalef ? kWholeF32 : kWholeF32 + kBias - 24);
  // Of e^-r.
  std::array<double, 7> series = kExpSeries;
  for (size_t i = 1; i < series.size(); i += 2) series[i] = -series[i];
  if (has_scalef) {
    for (double& c : series) c *= 0x1p-24;
  }
  V p = k.polynomial(r, series);
  V e = has_scalef ? scale_by_power(k, scalef, p, n, all_lanes(k))
                   : k.mul(p, power_of_biased(k, k.bits(shifted)));
  return k.div(k.f32(0x1p-24), k.add(e, k.f32(0x1p-24)));
}

// t is erf(x) / (1 + sqrt(1 - erf(x)^2)): 2^-25.6.
V erf_f32(const LaneBuilder& k, V x) {
  return odd_up_to_one(k, x, 3.93,
                       {4.87559362e-07, -5.19063797e-05, -0.00036445359, 0.0111985439, 0.112693623,
                        0.12837916709551256},
                       {-0.000143546669, 0.00058762508, 0.027314499, 0.114896223});
}

}  // namespace weft::cpu
