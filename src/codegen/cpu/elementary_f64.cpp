#include <limits>

#include "codegen/cpu/elementary.h"

namespace weft::cpu {
namespace {

using V = LaneBuilder::V;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2E = 0x1.71547652b82fep+0;
// ln 2; the high part has 32 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
/// Adding it rounds to a whole number and leaves that in the low bits.
constexpr double kWhole = 0x1.8p52;

/// x = n ln 2 + r, |r| <= ln(2)/2.
struct Reduced {
  V n, whole, r, tail;  ///< whole: n as an integer; the argument's rest is r + tail
};

Reduced reduce_exponent(const LaneBuilder& k, V x) {
  V shifted = k.mul_add(x, k.f64(kLog2E), k.f64(kWhole));
  Reduced out;
  out.n = k.sub(shifted, k.f64(kWhole));
  out.whole = k.b.CreateSub(k.bits(shifted), k.bits(k.f64(kWhole)));
  V high = k.sub(x, k.mul(out.n, k.f64(kLn2High)));
  V low = k.mul(out.n, k.f64(kLn2Low));
  out.r = k.sub(high, low);
  out.tail = k.sub(k.sub(high, out.r), low);
  return out;
}

/// e^r - 1 for |r| <= ln(2)/2, of an argument with a tail. (e^r - 1 - r)/r^2: 2^-64.
V exp_minus_one_series(const LaneBuilder& k, V r, V tail) {
  V q = k.polynomial(r, {2.0926908117016088e-09, 2.511224001093849e-08, 2.755723345710483e-07,
                         2.755723423699001e-06, 2.4801587373656083e-05, 0.00019841269897057778,
                         0.0013888888888858462, 0.008333333333316739, 0.04166666666666673,
                         0.16666666666666685, 0.5});
  return k.add(r, k.mul_add(k.mul(r, r), q, tail));
}

/// p * 2^n in two steps that round once where the result is denormal.
V scale_in_steps(const LaneBuilder& k, V p, V n) {
  // An arithmetic shift of 64 bits is slow before AVX-512; the bias makes it a logical one.
  V half = k.b.CreateSub(k.b.CreateLShr(k.b.CreateAdd(n, k.integer(64, 4096)), k.integer(64, 1)),
                         k.integer(64, 2048));
  return k.mul(k.mul(p, k.power_of_two(half)), k.power_of_two(k.b.CreateSub(n, half)));
}

V clamp(const LaneBuilder& k, V x, double low, double high) {
  return k.at_most(k.at_least(x, k.f64(low)), k.f64(high));
}

/// A positive normal number as m * 2^e, m in [sqrt(1/2), sqrt(2)); e is a float.
struct Split {
  V m, e;
};

Split split_exponent(const LaneBuilder& k, V x) {
  llvm::IRBuilder<>& b = k.b;
  V denormal = k.lt(x, k.f64(0x1p-1022));
  V normal = k.select(denormal, k.mul(x, k.f64(0x1p54)), x);
  V bits = k.bits(normal);
  // High words only: their shifts exist as vectors everywhere. The bias keeps the sign away.
  V biased = b.CreateAdd(b.CreateSub(bits, k.bits(k.f64(0x1.6a09e667f3bcdp-1))),
                         k.integer(64, int64_t{2048} << 52));
  V exponent = b.CreateLShr(biased, k.integer(64, 52));
  V unbiased = b.CreateSub(exponent, k.integer(64, 2048));
  V m = k.as_f64(b.CreateSub(bits, b.CreateShl(unbiased, k.integer(64, 52))));
  // exponent < 2^52: its float is 2^52 + exponent, less 2^52.
  V as_float = k.sub(k.as_f64(b.CreateOr(exponent, k.bits(k.f64(0x1p52)))), k.f64(0x1p52 + 2048));
  V e = k.sub(as_float, k.select(denormal, k.f64(54), k.f64(0)));
  return {m, e};
}

/// log(1 + 2s/(1-s)) = 2s + s^3 R(s^2): 2^-59.
V log_series(const LaneBuilder& k, V s) {
  V z = k.mul(s, s);
  V q = k.polynomial(
      z, {0.14796413423664362, 0.15314011778510794, 0.18183565525402443, 0.22222198556471248,
          0.285714287424885, 0.3999999999941448, 0.6666666666666734});
  return k.mul(q, z);
}

/// What log gives outside of the positive finite numbers.
V log_limits(const LaneBuilder& k, V x, V y) {
  y = k.select(k.eq(x, k.f64(kInfinity)), x, y);
  y = k.select(k.eq(x, k.f64(0)), k.f64(-kInfinity), y);
  return k.select(k.b.CreateFCmpULT(x, k.f64(0)), k.f64(kNan), y);
}

}  // namespace

V exp_f64(const LaneBuilder& k, V x) {
  const Reduced a = reduce_exponent(k, clamp(k, x, -746, 710));
  V p = k.add(exp_minus_one_series(k, a.r, a.tail), k.f64(1));
  return scale_in_steps(k, p, a.whole);
}

V expm1_f64(const LaneBuilder& k, V x) {
  const Reduced a = reduce_exponent(k, clamp(k, x, -40, 710));
  V series = exp_minus_one_series(k, a.r, a.tail);
  // 2^n (s + (1 - 2^-n)); from n = 60 on 2^-n no longer counts.
  V n = k.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a.whole, k.integer(64, 60));
  V inverse = k.power_of_two(k.b.CreateNeg(n));
  V y = scale_in_steps(k, k.add(series, k.sub(k.f64(1), inverse)), a.whole);
  return k.select(k.eq(x, k.f64(0)), x, y);
}

V log_f64(const LaneBuilder& k, V x) {
  const Split a = split_exponent(k, x);
  V f = k.sub(a.m, k.f64(1));
  V s = k.div(f, k.add(f, k.f64(2)));
  V half_square = k.mul(k.mul(f, f), k.f64(0.5));
  // 2s = f - s f, so log(1+f) = f - (f^2/2 - s (f^2/2 + R)).
  V rest = k.mul(s, k.add(half_square, log_series(k, s)));
  V low = k.mul_add(a.e, k.f64(kLn2Low), rest);
  V y = k.sub(k.mul(a.e, k.f64(kLn2High)), k.sub(k.sub(half_square, low), f));
  return log_limits(k, x, y);
}

V log1p_f64(const LaneBuilder& k, V x) {
  V u = k.add(x, k.f64(1));
  // What the sum lost, to first order.
  V lost = k.select(k.gt(x, k.f64(1)), k.sub(k.f64(1), k.sub(u, x)), k.sub(x, k.sub(u, k.f64(1))));
  V correction = k.div(lost, u);
  V usable = k.both(k.gt(u, k.f64(0)), k.lt(u, k.f64(kInfinity)));
  V y = k.add(log_f64(k, u), k.select(usable, correction, k.f64(0)));
  return k.select(k.eq(x, k.f64(0)), x, y);
}

/// exp(y log|x|) with the logarithm to 2^-65: its error grows with y log|x|, up to 709 times.
V pow_f64(const LaneBuilder& k, V x, V y) {
  llvm::IRBuilder<>& b = k.b;
  V a = k.abs(x);
  const Split part = split_exponent(k, a);
  V f = k.sub(part.m, k.f64(1));
  // s = f / (2 + f) as a pair.
  V d = k.add(part.m, k.f64(1));
  V d_rest = k.sub(part.m, k.sub(d, k.f64(1)));
  V s = k.div(f, d);
  V product = k.mul(s, d);
  V s_rest = k.sub(k.sub(f, product), product_rest(k, s, d, product));
  s_rest = k.div(k.sub(s_rest, k.mul(s, d_rest)), d);
  V high = k.mul(s, k.f64(2));
  V low = k.mul_add(s, log_series(k, s), k.mul(s_rest, k.f64(2)));
  // Plus e ln 2.
  V exponent = k.mul(part.e, k.f64(kLn2High));
  V sum = k.add(exponent, high), other = k.sub(sum, exponent);
  V lost = k.add(k.sub(exponent, k.sub(sum, other)), k.sub(high, other));
  low = k.add(low, k.mul_add(part.e, k.f64(kLn2Low), lost));
  V log_high = log_limits(k, a, k.add(sum, low));
  V log_low = k.add(k.sub(sum, log_high), low);
  // Times y.
  V p = k.mul(y, log_high);
  V p_rest = k.mul_add(y, log_low, product_rest(k, y, log_high, p));
  V small_enough = k.lt(k.abs(p), k.f64(800));
  p_rest = k.select(small_enough, p_rest, k.f64(0));
  V result = exp_f64(k, p);
  V corrected = k.mul_add(result, p_rest, result);
  result = k.select(k.lt(result, k.f64(kInfinity)), corrected, result);

  // Signs and the cases that no limit decides.
  V whole = k.eq(k.round(y, LaneBuilder::Rounding::kTrunc), y);
  V half = k.mul(y, k.f64(0.5));
  V odd = k.both(whole, b.CreateFCmpUNE(k.round(half, LaneBuilder::Rounding::kTrunc), half));
  V negative = b.CreateICmpSLT(k.bits(x), k.integer(64, 0));
  result = k.select(k.both(negative, odd), k.neg(result), result);
  V no_root = k.both(k.both(k.lt(x, k.f64(0)), k.gt(x, k.f64(-kInfinity))), b.CreateNot(whole));
  result = k.select(no_root, k.f64(kNan), result);
  V both_one = k.both(k.eq(x, k.f64(-1)), k.eq(k.abs(y), k.f64(kInfinity)));
  V is_one = b.CreateOr(b.CreateOr(k.eq(x, k.f64(1)), k.eq(y, k.f64(0))), both_one);
  return k.select(is_one, k.f64(1), result);
}

V sinh_f64(const LaneBuilder& k, V x) {
  V a = k.abs(x);
  V e = expm1_f64(k, k.at_most(a, k.f64(22)));
  V small = k.mul(k.add(e, k.div(e, k.add(e, k.f64(1)))), k.f64(0.5));
  V w = exp_f64(k, k.mul(a, k.f64(0.5)));
  V large = k.mul(k.mul(w, k.f64(0.5)), w);
  return k.copy_sign(k.select(k.gt(a, k.f64(22)), large, small), x);
}

V cosh_f64(const LaneBuilder& k, V x) {
  V a = k.abs(x);
  V w = exp_f64(k, k.mul(a, k.f64(0.5)));
  V e = k.mul(w, w);
  V small = k.mul(k.add(e, k.div(k.f64(1), e)), k.f64(0.5));
  V large = k.mul(k.mul(w, k.f64(0.5)), w);
  return k.select(k.gt(a, k.f64(22)), large, small);
}

V tanh_f64(const LaneBuilder& k, V x) {
  V a = k.at_most(k.abs(x), k.f64(22));
  V is_large = k.ge(a, k.f64(0.5));
  V twice = k.mul(a, k.f64(2));
  V e = expm1_f64(k, k.select(is_large, twice, k.neg(twice)));
  V d = k.add(e, k.f64(2));
  V ratio = k.div(k.select(is_large, k.f64(2), k.neg(e)), d);
  return k.copy_sign(k.select(is_large, k.sub(k.f64(1), ratio), ratio), x);
}

V sigmoid_f64(const LaneBuilder& k, V x) {
  V e = exp_f64(k, k.neg(k.abs(x)));
  V top = k.select(k.lt(x, k.f64(0)), e, k.f64(1));
  return k.div(top, k.add(e, k.f64(1)));
}

V erf_f64(const LaneBuilder& k, V x) {
  V a = k.at_most(k.abs(x), k.f64(6));
  V z = k.mul(x, x);
  // erf(x)/x - 1 as a series of x^2 below 1: 2^-68.
  V p = k.polynomial(z, {-4.23312952867958e-12, 8.710465336650472e-11, -1.216496861716556e-09,
                         1.479246964452013e-08, -1.636464955146516e-07, 1.646204598055763e-06,
                         -1.4925647594497853e-05, 0.000120553329038126, -0.0008548327021956025,
                         0.005223977625423611, -0.026866170645129868, 0.1128379167095512,
                         -0.37612638903183754, 0.1283791670955126});
  V small = k.mul_add(p, x, x);
  // a e^(a^2) erfc(a) as a series of (a-2)/(a+2) on [1, 6]: 2^-58.
  V t = k.div(k.sub(a, k.f64(2)), k.add(a, k.f64(2)));
  V q = k.polynomial(
      t, {2.7676633985353208e-06, 1.867972611494139e-06, -8.70957728740913e-06,
          -1.9063111938157518e-05, 6.260452872373351e-06, 8.933001456949914e-05,
          8.941589407374644e-05, -0.0003143525074875313, -0.0007501843873048499,
          0.0011266580591632923, 0.0047848985478093214, -0.007515738412232812, -0.02897644669788683,
          0.12151493052460222, -0.20384429592888004, 0.16721101041410613, 0.5107913526210115});
  V complement = k.div(k.mul(exp_f64(k, k.neg(k.mul(a, a))), q), a);
  V large = k.copy_sign(k.sub(k.f64(1), complement), x);
  return k.select(k.lt(k.abs(x), k.f64(1)), small, large);
}

V asinh_f64(const LaneBuilder& k, V x) {
  V a = k.abs(x);
  V is_large = k.gt(a, k.f64(0x1p28));
  V square = k.mul(a, a);
  V step = k.add(k.sqrt(k.add(square, k.f64(1))), k.f64(1));
  V small = log1p_f64(k, k.add(a, k.div(square, step)));
  V large = k.add(log_f64(k, a), k.f64(kLn2));
  return k.copy_sign(k.select(is_large, large, small), x);
}

V acosh_f64(const LaneBuilder& k, V x) {
  V t = k.sub(x, k.f64(1));
  V root = k.sqrt(k.mul_add(t, t, k.mul(t, k.f64(2))));
  V small = log1p_f64(k, k.add(t, root));
  V large = k.add(log_f64(k, x), k.f64(kLn2));
  V y = k.select(k.gt(x, k.f64(0x1p28)), large, small);
  return k.select(k.lt(x, k.f64(1)), k.f64(kNan), y);
}

V atanh_f64(const LaneBuilder& k, V x) {
  V a = k.abs(x);
  V ratio = k.div(k.mul(a, k.f64(2)), k.sub(k.f64(1), a));
  return k.copy_sign(k.mul(log1p_f64(k, ratio), k.f64(0.5)), x);
}

}  // namespace weft::cpu
