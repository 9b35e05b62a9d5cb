#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "codegen/cpu/elementary.h"

namespace weft::cpu {
namespace {

using V = LaneBuilder::V;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiRest = 0x1.1a62633145c07p-54;
/// Below it n = x / (pi/2) has 20 bits, and the parts of pi/2 below have 33 each: exact products.
constexpr double kNearLimit = 0x1p20;

/// 64 zero bits, then 2/pi after the binary point.
constexpr uint64_t kTwoOverPi[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
    0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

/// x = quadrant * pi/2 + r + tail, |r| <= pi/4; the quadrant's two low bits count.
struct Angle {
  V quadrant, r, tail;
};

/// Cody and Waite: pi/2 taken off in parts, with the rounding of the last step kept.
Angle reduce_near(const LaneBuilder& k, V x) {
  constexpr double kWhole = 0x1.8p52;  // adding it rounds to a whole number
  V shifted = k.mul_add(x, k.f64(0x1.45f306dc9c883p-1), k.f64(kWhole));
  V n = k.sub(shifted, k.f64(kWhole));
  V r = k.sub(x, k.mul(n, k.f64(0x1.921fb544p+0)));
  V low = k.mul(n, k.f64(0x1.0b4611a6p-34));
  V next = k.sub(r, low);
  V lost = k.sub(k.sub(r, next), low);
  V rest = k.sub(k.mul(n, k.f64(0x1.3198a2e037073p-69)), lost);
  Angle a;
  a.r = k.sub(next, rest);
  a.tail = k.sub(k.sub(next, a.r), rest);
  a.quadrant = k.bits(shifted);
  return a;
}

llvm::GlobalVariable* two_over_pi(llvm::Module& module) {
  constexpr const char* kName = "two_over_pi";
  if (llvm::GlobalVariable* known = module.getGlobalVariable(kName, true)) return known;
  llvm::Constant* words = llvm::ConstantDataArray::get(
      module.getContext(), llvm::ArrayRef<uint64_t>(kTwoOverPi, std::size(kTwoOverPi)));
  auto* table = new llvm::GlobalVariable(module, words->getType(), true,
                                         llvm::GlobalValue::PrivateLinkage, words, kName);
  table->setAlignment(llvm::Align(8));
  return table;
}

/// One scalar of any finite size from kNearLimit on (Payne and Hanek): x = m 2^e times the bits of
/// 2/pi from where they weigh less than 4, in 192-bit arithmetic.
Angle reduce_far(const LaneBuilder& s, V x) {
  llvm::IRBuilder<>& b = s.b;
  V bits = s.bits(x);
  V biased = b.CreateAnd(b.CreateLShr(bits, 52), s.integer(64, 0x7ff));
  V m = b.CreateOr(b.CreateAnd(bits, s.integer(64, (int64_t{1} << 52) - 1)),
                   s.integer(64, int64_t{1} << 52));
  V position = b.CreateSub(biased, s.integer(64, 1075 + 2 - 64));
  V first = b.CreateLShr(position, 6), shift = b.CreateAnd(position, s.integer(64, 63));
  llvm::GlobalVariable* table = two_over_pi(*b.GetInsertBlock()->getModule());
  const auto word = [&](int64_t i) {
    V address = b.CreateGEP(b.getInt64Ty(), table, b.CreateAdd(first, s.integer(64, i)));
    return b.CreateLoad(b.getInt64Ty(), address);
  };
  const auto window = [&](V high, V low) {
    return b.CreateIntrinsic(llvm::Intrinsic::fshl, {b.getInt64Ty()}, {high, low, shift});
  };
  V w0 = word(0), w1 = word(1), w2 = word(2), w3 = word(3);
  llvm::Type* wide = b.getInt128Ty();
  const auto product = [&](V w) {
    return b.CreateMul(b.CreateZExt(m, wide), b.CreateZExt(w, wide));
  };
  V phase = b.CreateShl(product(window(w0, w1)), 64);
  phase = b.CreateAdd(phase, product(window(w1, w2)));
  phase = b.CreateAdd(phase, b.CreateLShr(product(window(w2, w3)), 64));
  // Two bits of quadrant, then 126 of fraction, taken to the nearest quadrant.
  V quarter = b.CreateShl(llvm::ConstantInt::get(wide, 1), llvm::ConstantInt::get(wide, 125));
  V nearest = b.CreateLShr(b.CreateAdd(phase, quarter), 126);
  V rest = b.CreateSub(phase, b.CreateShl(nearest, 126));
  V negative = b.CreateICmpSLT(rest, llvm::ConstantInt::get(wide, 0));
  // Never 0, pi being irrational; the lowest bit says so to ctlz and the shift.
  V magnitude = b.CreateOr(b.CreateSelect(negative, b.CreateNeg(rest), rest),
                           llvm::ConstantInt::get(wide, 1));
  V zeros = b.CreateIntrinsic(llvm::Intrinsic::ctlz, {wide}, {magnitude, b.getFalse()});
  V top = b.CreateTrunc(b.CreateLShr(b.CreateShl(magnitude, zeros), 65), b.getInt64Ty());
  V fraction = b.CreateSIToFP(top, b.getDoubleTy());  // 63 bits, the highest set
  V exponent = b.CreateSub(s.integer(64, 2 - 63), b.CreateTrunc(zeros, b.getInt64Ty()));
  V r = s.mul(s.mul(fraction, s.power_of_two(exponent)), s.f64(kHalfPi));
  V backwards = b.CreateXor(negative, b.CreateICmpSLT(bits, s.integer(64, 0)));
  V quadrant = b.CreateTrunc(nearest, b.getInt64Ty());
  quadrant =
      b.CreateSelect(b.CreateICmpSLT(bits, s.integer(64, 0)), b.CreateNeg(quadrant), quadrant);
  return {quadrant, b.CreateSelect(backwards, s.neg(r), r), s.f64(0)};
}

using Body = std::function<V(llvm::Function* function)>;

/// A function of the module that returns what `body` makes: for what is long and seldom run, which
/// in place would stand in a kernel for every vector of its tiles.
llvm::Function* seldom_run(const LaneBuilder& k, const std::string& name, llvm::FunctionType* type,
                           const Body& body) {
  llvm::IRBuilder<>& b = k.b;
  llvm::Function* caller = b.GetInsertBlock()->getParent();
  llvm::Module& module = *caller->getParent();
  if (llvm::Function* known = module.getFunction(name)) return known;
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
  function->setAttributes(function->getAttributes().addFnAttributes(
      b.getContext(), llvm::AttrBuilder(b.getContext(), caller->getAttributes().getFnAttrs())));
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::Cold);
  const llvm::IRBuilder<>::InsertPointGuard guard(b);
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", function));
  b.CreateRet(body(function));
  return function;
}

/// The lanes of a vector one after another: `parts` of vectors, of which `one` makes a lane of
/// each.
std::vector<V> lane_by_lane(const LaneBuilder& k, const std::vector<llvm::Type*>& parts, V x,
                            const std::function<std::vector<V>(V lane)>& one) {
  llvm::IRBuilder<>& b = k.b;
  if (k.lanes() == 1) return one(x);
  std::vector<V> state{b.getInt64(0)};
  for (llvm::Type* type : parts) state.push_back(llvm::PoisonValue::get(type));
  state = k.loop(
      state, [&](const std::vector<V>& s) { return b.CreateICmpSLT(s[0], b.getInt64(k.lanes())); },
      [&](const std::vector<V>& s) {
        const std::vector<V> made = one(b.CreateExtractElement(x, s[0]));
        std::vector<V> next{b.CreateAdd(s[0], b.getInt64(1))};
        for (size_t i = 0; i < made.size(); ++i)
          next.push_back(b.CreateInsertElement(s[i + 1], made[i], s[0]));
        return next;
      });
  return {state.begin() + 1, state.end()};
}

/// The far reduction of finite numbers.
Angle far_angle(const LaneBuilder& k, V x) {
  llvm::IRBuilder<>& b = k.b;
  const std::vector<llvm::Type*> parts{k.int_type(64), k.f64_type()};
  auto* both = llvm::StructType::get(b.getContext(), parts);
  llvm::Function* function =
      seldom_run(k, "far_angle_" + std::to_string(k.lanes()),
                 llvm::FunctionType::get(both, {k.f64_type()}, false), [&](llvm::Function* f) {
                   const std::vector<V> made = lane_by_lane(k, parts, f->getArg(0), [&](V lane) {
                     const Angle one = reduce_far(k.with_lanes(1), lane);
                     return std::vector<V>{one.quadrant, one.r};
                   });
                   V out = llvm::PoisonValue::get(both);
                   for (unsigned i = 0; i < made.size(); ++i)
                     out = b.CreateInsertValue(out, made[i], i);
                   return out;
                 });
  V made = b.CreateCall(function, {x});
  return {b.CreateExtractValue(made, 0), b.CreateExtractValue(made, 1), k.f64(0)};
}

/// The far reduction where any lane needs it.
Angle reduce_angle(const LaneBuilder& k, V x) {
  llvm::IRBuilder<>& b = k.b;
  const Angle near = reduce_near(k, x);
  V is_far = b.CreateFCmpUGE(k.abs(x), k.f64(kNearLimit));
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  llvm::BasicBlock* slow = llvm::BasicBlock::Create(b.getContext(), "far", function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "reduced", function);
  b.CreateCondBr(k.any(is_far), slow, after);
  b.SetInsertPoint(slow);
  V finite_far =
      b.CreateAnd(is_far, k.lt(k.abs(x), k.f64(std::numeric_limits<double>::infinity())));
  // Lanes that are not far must not leave the table.
  const Angle far = far_angle(k, k.select(finite_far, x, k.f64(kNearLimit)));
  V quadrant = k.select(is_far, far.quadrant, near.quadrant);
  V r = k.select(is_far, k.select(finite_far, far.r, k.f64(kNan)), near.r);
  V tail = k.select(is_far, k.f64(0), near.tail);
  llvm::BasicBlock* slow_end = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  const auto join = [&](V fast_value, V slow_value) -> V {
    llvm::PHINode* phi = b.CreatePHI(fast_value->getType(), 2);
    phi->addIncoming(fast_value, before);
    phi->addIncoming(slow_value, slow_end);
    return phi;
  };
  Angle a;
  a.quadrant = join(near.quadrant, quadrant);
  a.r = join(near.r, r);
  a.tail = join(near.tail, tail);
  return a;
}

struct SinCos {
  V sine, cosine;
};

/// Of |r| <= pi/4. (sin r - r)/r^3: 2^-58; (cos r - 1 + r^2/2)/r^4: 2^-64.
SinCos series(const LaneBuilder& k, const Angle& a) {
  V z = k.mul(a.r, a.r);
  V p = k.polynomial(z, {1.5896812020407977e-10, -2.505075848271768e-08, 2.75573136949196e-06,
                         -0.00019841269829818671, 0.00833333333332243, -0.16666666666666632});
  V q = k.polynomial(z, {-1.1359650239416014e-11, 2.087572332795177e-09, -2.7557314352805515e-07,
                         2.4801587289484126e-05, -0.0013888888888874127, 0.0416666666666666});
  SinCos out;
  out.sine = k.add(a.r, k.mul_add(k.mul(p, z), a.r, a.tail));
  V half = k.mul(z, k.f64(0.5));
  V w = k.sub(k.f64(1), half);
  V lost = k.sub(k.sub(k.f64(1), w), half);
  V low = k.sub(k.mul_add(k.mul(z, z), q, lost), k.mul(a.r, a.tail));
  out.cosine = k.add(w, low);
  return out;
}

V bit_set(const LaneBuilder& k, V quadrant, int64_t bit) {
  return k.b.CreateICmpNE(k.b.CreateAnd(quadrant, k.integer(64, bit)), k.integer(64, 0));
}

V sine_of(const LaneBuilder& k, V x, int64_t turned) {
  Angle a = reduce_angle(k, x);
  a.quadrant = k.b.CreateAdd(a.quadrant, k.integer(64, turned));
  const SinCos s = series(k, a);
  V y = k.select(bit_set(k, a.quadrant, 1), s.cosine, s.sine);
  return k.select(bit_set(k, a.quadrant, 2), k.neg(y), y);
}

/// Below it an FMA takes pi/2 off in three parts of 24 bits, the first of them exactly.
constexpr double kNearLimitF32 = 30000;

/// float32 arithmetic below kNearLimitF32; where any lane is beyond, float64 lane by lane.
V sine_of_f32(const LaneBuilder& k, V x, int64_t turned) {
  llvm::IRBuilder<>& b = k.b;
  constexpr double kWhole = 0x1.8p23;  // adding it rounds to a whole number
  V shifted = k.mul_add(x, k.f32(0x1.45f306p-1), k.f32(kWhole));
  V n = k.sub(shifted, k.f32(kWhole));
  V r = x;
  for (const double part : {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50})
    r = k.mul_add(n, k.f32(-part), r);
  V z = k.mul(r, r);
  // (sin r - r)/r^3: 2^-27; cos r: 2^-27.
  V p = k.polynomial(z, {2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1});
  V sine = k.mul_add(k.mul(p, z), r, r);
  V cosine = k.polynomial(z, {2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -0.5, 1});
  V quadrant = b.CreateAdd(k.bits(shifted), k.integer(32, turned));
  V odd = b.CreateICmpNE(b.CreateAnd(quadrant, k.integer(32, 1)), k.integer(32, 0));
  V sign = b.CreateShl(b.CreateAnd(quadrant, k.integer(32, 2)), k.integer(32, 30));
  V y = k.as_f32(b.CreateXor(k.bits(k.select(odd, cosine, sine)), sign));
  if (turned == 0) y = k.select(k.eq(x, k.f32(0)), x, y);  // -0, of which the parts make 0
  V is_far = b.CreateFCmpUGE(k.abs(x), k.f32(kNearLimitF32));
  return k.branch(k.any(is_far), y, [&] {
    const std::string name =
        (turned == 0 ? "far_sine_" : "far_cosine_") + std::to_string(k.lanes());
    llvm::Function* function =
        seldom_run(k, name, llvm::FunctionType::get(k.f32_type(), {k.f32_type()}, false),
                   [&](llvm::Function* f) {
                     const LaneBuilder one = k.with_lanes(1);
                     return lane_by_lane(k, {k.f32_type()}, f->getArg(0), [&](V lane) {
                       return std::vector<V>{one.to_f32(sine_of(one, one.to_f64(lane), turned))};
                     })[0];
                   });
    return k.select(is_far, b.CreateCall(function, {x}), y);
  });
}

/// (asin x - x)/x as a series of x^2, to 1/4: 2^-63.
V asin_series(const LaneBuilder& k, V z) {
  V q = k.polynomial(
      z, {0.03372084165280702, -0.026282592199454113, 0.024929062250980762, 0.0006355124515509209,
          0.010023641737565906, 0.00948109487161186, 0.011586108326482339, 0.013961859307132698,
          0.017352946370058905, 0.022372151548774186, 0.030381944646331174, 0.04464285713965809,
          0.0750000000000256, 0.1666666666666666});
  return k.mul(q, z);
}

/// atan(top/bottom) for 0 <= top/bottom, without overflow of the quotient: the quotient itself, or
/// pi/4 + atan((t-1)/(t+1)), or pi/2 - atan(1/t), so that |u| <= tan(pi/8).
V atan_of_ratio(const LaneBuilder& k, V top, V bottom) {
  V beyond_low = k.gt(top, k.mul(bottom, k.f64(0x1.a8279ap-2)));
  V beyond_high = k.gt(k.mul(top, k.f64(0x1.a8279ap-2)), bottom);
  V numerator = k.select(beyond_low, k.sub(top, bottom), top);
  V denominator = k.select(beyond_low, k.add(top, bottom), bottom);
  numerator = k.select(beyond_high, k.neg(bottom), numerator);
  denominator = k.select(beyond_high, top, denominator);
  V base = k.select(beyond_low, k.f64(kHalfPi / 2), k.f64(0));
  base = k.select(beyond_high, k.f64(kHalfPi), base);
  V rest = k.select(beyond_low, k.f64(kHalfPiRest / 2), k.f64(0));
  rest = k.select(beyond_high, k.f64(kHalfPiRest), rest);
  V u = k.div(numerator, denominator);
  V z = k.mul(u, u);
  // (atan u - u)/u^3 to tan(pi/8): 2^-59.
  V q = k.polynomial(
      z, {-0.017919887206211457, 0.03807618038446705, -0.05039763099009521, 0.05847991064704853,
          -0.06663117995780202, 0.07692061433306392, -0.09090897825382535, 0.11111110785768366,
          -0.1428571428024148, 0.19999999999954016, -0.333333333333332});
  return k.add(base, k.add(k.mul_add(k.mul(q, z), u, rest), u));
}

}  // namespace

V sin_f64(const LaneBuilder& k, V x) { return k.select(k.eq(x, k.f64(0)), x, sine_of(k, x, 0)); }
V cos_f64(const LaneBuilder& k, V x) { return sine_of(k, x, 1); }

V sin_f32(const LaneBuilder& k, V x) {
  return k.isa().fma ? sine_of_f32(k, x, 0) : k.to_f32(sin_f64(k, k.to_f64(x)));
}
V cos_f32(const LaneBuilder& k, V x) {
  return k.isa().fma ? sine_of_f32(k, x, 1) : k.to_f32(cos_f64(k, k.to_f64(x)));
}

V tan_f64(const LaneBuilder& k, V x) {
  const Angle a = reduce_angle(k, x);
  const SinCos s = series(k, a);
  V odd = bit_set(k, a.quadrant, 1);
  V y = k.div(k.select(odd, k.neg(s.cosine), s.sine), k.select(odd, s.sine, s.cosine));
  return k.select(k.eq(x, k.f64(0)), x, y);
}

V asin_f64(const LaneBuilder& k, V x) {
  V a = k.abs(x);
  V is_small = k.lt(a, k.f64(0.5));
  // asin a = pi/2 - 2 asin(sqrt((1-a)/2)).
  V z = k.select(is_small, k.mul(a, a), k.mul(k.sub(k.f64(1), a), k.f64(0.5)));
  V s = k.select(is_small, a, k.sqrt(z));
  V y = k.mul_add(asin_series(k, z), s, s);
  V large = k.sub(k.f64(kHalfPi), k.sub(k.mul(y, k.f64(2)), k.f64(kHalfPiRest)));
  return k.copy_sign(k.select(is_small, y, large), x);
}

V acos_f64(const LaneBuilder& k, V x) {
  V a = k.abs(x);
  V is_small = k.lt(a, k.f64(0.5));
  V z = k.select(is_small, k.mul(a, a), k.mul(k.sub(k.f64(1), a), k.f64(0.5)));
  V s = k.select(is_small, x, k.sqrt(z));
  V y = k.mul_add(asin_series(k, z), s, s);
  V middle = k.sub(k.f64(kHalfPi), k.sub(y, k.f64(kHalfPiRest)));
  V right = k.mul(y, k.f64(2));
  V left = k.sub(k.f64(2 * kHalfPi), k.sub(right, k.f64(2 * kHalfPiRest)));
  return k.select(is_small, middle, k.select(k.lt(x, k.f64(0)), left, right));
}

V atan_f64(const LaneBuilder& k, V x) {
  return k.copy_sign(atan_of_ratio(k, k.abs(x), k.f64(1)), x);
}

V atan2_f64(const LaneBuilder& k, V y, V x) {
  llvm::IRBuilder<>& b = k.b;
  V top = k.abs(y), bottom = k.abs(x);
  V infinity = k.f64(std::numeric_limits<double>::infinity());
  // 0/0 is 0, inf/inf is 1; both large: halved, so that their sum is finite.
  V both_infinite = k.both(k.eq(top, infinity), k.eq(bottom, infinity));
  V both_zero = k.both(k.eq(top, k.f64(0)), k.eq(bottom, k.f64(0)));
  V large = b.CreateOr(k.gt(top, k.f64(0x1p1000)), k.gt(bottom, k.f64(0x1p1000)));
  V factor = k.select(large, k.f64(0x1p-60), k.f64(1));
  // Both small: doubled as often, for the comparisons' sake.
  V small = k.both(k.lt(top, k.f64(0x1p-900)), k.lt(bottom, k.f64(0x1p-900)));
  factor = k.select(small, k.f64(0x1p100), factor);
  top = k.mul(k.select(both_infinite, k.f64(1), top), factor);
  bottom = k.mul(k.select(both_infinite, k.f64(1), k.select(both_zero, k.f64(1), bottom)), factor);
  V angle = atan_of_ratio(k, top, bottom);
  V behind = b.CreateICmpSLT(k.bits(x), k.integer(64, 0));
  V turned = k.sub(k.f64(2 * kHalfPi), k.sub(angle, k.f64(2 * kHalfPiRest)));
  angle = k.copy_sign(k.select(behind, turned, angle), y);
  V invalid = b.CreateFCmpUNO(x, y);
  return k.select(invalid, k.f64(kNan), angle);
}

V remainder_of(const LaneBuilder& k, V x, V y) {
  llvm::IRBuilder<>& b = k.b;
  // float32 in float64: the quotient's error then never reaches a whole unit's worth of steps.
  const bool single = x->getType()->getScalarType()->isFloatTy();
  V a = k.abs(single ? k.to_f64(x) : x), d = k.abs(single ? k.to_f64(y) : y);
  V infinity = k.f64(std::numeric_limits<double>::infinity());
  V valid = k.both(k.both(k.lt(a, infinity), k.gt(d, k.f64(0))), b.CreateFCmpORD(d, d));
  V rest = k.select(valid, a, k.f64(0));
  V divisor = k.select(k.both(valid, k.lt(d, infinity)), d, infinity);
  const auto more = [&](const std::vector<V>& s) { return k.any(k.ge(s[0], divisor)); };
  const auto step = [&](const std::vector<V>& s) {
    // Far apart: by a multiple of the divisor, so that the quotient is finite.
    V far = k.mul(divisor, k.f64(0x1p900)), farther = k.mul(far, k.f64(0x1p200));
    V by = k.select(k.ge(s[0], far), far, divisor);
    by = k.select(k.ge(s[0], farther), farther, by);
    // 26 bits of a quotient that is not above the true one: quotient * by is exact in two parts.
    V quotient = k.mul(k.div(s[0], by), k.f64(1 - 0x1p-52));
    V short_bits = b.CreateAnd(k.bits(quotient), k.integer(64, ~((int64_t{1} << 27) - 1)));
    quotient = k.round(k.as_f64(short_bits), LaneBuilder::Rounding::kTrunc);
    V at_least_one = k.at_least(quotient, k.f64(1));
    V by_high = k.as_f64(b.CreateAnd(k.bits(by), k.integer(64, ~((int64_t{1} << 27) - 1))));
    V by_low = k.sub(by, by_high);
    V less = k.sub(k.sub(s[0], k.mul(at_least_one, by_high)), k.mul(at_least_one, by_low));
    return std::vector<V>{k.select(k.ge(s[0], divisor), less, s[0])};
  };
  V result = k.loop({rest}, more, step)[0];
  result = k.copy_sign(result, single ? k.to_f64(x) : x);
  result = k.select(valid, result, k.f64(kNan));
  return single ? k.to_f32(result) : result;
}

}  // namespace weft::cpu
