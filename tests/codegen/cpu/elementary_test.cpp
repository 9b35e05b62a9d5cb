#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/codegen/cpu/kernel_runner.h"

namespace weft {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
long double sigmoid_long(long double x) { return 1 / (1 + std::exp(-x)); }

/// y = op(x), `lanes` at a time.
KernelFunction unary_kernel(ScalarOp op, DType type, int64_t count, int32_t lanes,
                            bool nonpositive = false) {
  KernelFunction k;
  k.name = std::string(scalar_op_name(op));
  k.buffers = {make_buffer("x", type, KernelBuffer::Kind::kInput, count),
               make_buffer("y", type, KernelBuffer::Kind::kOutput, count)};
  KernelBuilder b(k);
  const auto [begin, end] = b.begin_phase(count);
  b.for_loop(begin, end, lanes, {}, [&](Reg iv, const std::vector<Reg>&) {
    const Reg x = b.load(0, iv, lanes);
    b.store(1, iv, nonpositive ? b.exp_nonpositive(x) : b.apply(op, {x}, type));
    return std::vector<Reg>{};
  });
  b.end_phase();
  return k;
}

/// Every 4099th of all floats (the distance is prime), and all that are near where methods change
/// or results overflow, vanish or become denormal.
std::vector<float> swept_floats() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const float centre :
       {0.0f,        0x1p-126f,  0x1p-63f,   0.41421357f, 0.5f,    0.625f,  0.70710678f, 1.0f,
        1.41421357f, 1.5707964f, 3.1415927f, 3.93f,       9.02f,   17.5f,   87.336548f,  88.722839f,
        103.97208f,  104.0f,     0x1p20f,    0x1p23f,     0x1p24f, 3.0e38f, kInf}) {
    const auto middle = static_cast<int64_t>(std::bit_cast<uint32_t>(centre));
    for (int64_t bits = std::max<int64_t>(0, middle - 500); bits < middle + 500; ++bits) {
      const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
      values.push_back(value);
      values.push_back(-value);
    }
  }
  while (values.size() % 16 != 0) values.push_back(0.75f);
  return values;
}

/// Distance in units of the last place of float32 at the exact result; 0 for equal special values,
/// infinite where only one of the two is special.
double ulps(float got, double exact) {
  const auto want = static_cast<float>(exact);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kInf;
  if (got == want) return std::signbit(got) == std::signbit(want) ? 0 : kInf;
  if (std::isinf(got) || std::isinf(want)) {
    // One step beyond the largest number at most.
    const double largest = std::numeric_limits<float>::max();
    return std::fabs(exact) > largest * (1 - 1e-6) && std::fabs(got) >= largest * (1 - 1e-6) ? 1
                                                                                             : kInf;
  }
  const int exponent = std::max(-126, std::ilogb(exact));
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

struct FloatFunction {
  ScalarOp op;
  double (*exact)(double);
  double bound;  ///< units in the last place
};

class FloatFunctions : public ::testing::TestWithParam<FloatFunction> {};

TEST_P(FloatFunctions, StayWithinTheirBoundOverAllFloats) {
  const FloatFunction f = GetParam();
  std::vector<float> x = swept_floats(), y(x.size());
  std::vector<double> exact(x.size());
  for (size_t i = 0; i < x.size(); ++i) exact[i] = f.exact(x[i]);
  for (const Target& target : machine_widths()) {
    const int32_t lanes = target.lanes(4);
    SCOPED_TRACE(std::to_string(lanes) + " lanes");
    std::fill(y.begin(), y.end(), -7.5f);
    run_compiled(unary_kernel(f.op, DType::kF32, static_cast<int64_t>(x.size()), lanes), target,
                 {x.data(), y.data()});
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double distance = ulps(y[i], exact[i]);
      if (distance > worst) {
        worst = distance;
        at = i;
      }
    }
    EXPECT_LE(worst, f.bound) << scalar_op_name(f.op) << "(" << x[at] << ") = " << y[at]
                              << ", exactly " << exact[at];
    RecordProperty("ulps_" + std::to_string(lanes), std::to_string(worst));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FloatFunctions,
                         ::testing::Values(FloatFunction{ScalarOp::kExp, std::exp, 4},
                                           FloatFunction{ScalarOp::kLog, std::log, 4},
                                           FloatFunction{ScalarOp::kTanh, std::tanh, 4},
                                           FloatFunction{ScalarOp::kErf, std::erf, 4},
                                           FloatFunction{ScalarOp::kSigmoid, sigmoid, 4},
                                           FloatFunction{ScalarOp::kExpm1, std::expm1, 2},
                                           FloatFunction{ScalarOp::kLog1p, std::log1p, 2},
                                           FloatFunction{ScalarOp::kSin, std::sin, 2},
                                           FloatFunction{ScalarOp::kCos, std::cos, 2},
                                           FloatFunction{ScalarOp::kTan, std::tan, 0.51},
                                           FloatFunction{ScalarOp::kAsin, std::asin, 0.51},
                                           FloatFunction{ScalarOp::kAcos, std::acos, 0.51},
                                           FloatFunction{ScalarOp::kAtan, std::atan, 0.51},
                                           FloatFunction{ScalarOp::kSinh, std::sinh, 0.51},
                                           FloatFunction{ScalarOp::kCosh, std::cosh, 0.51},
                                           FloatFunction{ScalarOp::kAsinh, std::asinh, 0.51},
                                           FloatFunction{ScalarOp::kAcosh, std::acosh, 0.51},
                                           FloatFunction{ScalarOp::kAtanh, std::atanh, 0.51}),
                         [](const auto& test) {
                           return std::string(scalar_op_name(test.param.op));
                         });

TEST(OddFunctions, NeverPassOne) {
  std::vector<float> x;
  for (int i = 0; i < 1 << 17; ++i) x.push_back(1.5f + static_cast<float>(i) * 0x1p-14f);
  std::vector<float> y(x.size());
  for (const Target& target : machine_widths()) {
    for (const ScalarOp op : {ScalarOp::kTanh, ScalarOp::kErf}) {
      run_compiled(unary_kernel(op, DType::kF32, static_cast<int64_t>(x.size()), target.lanes(4)),
                   target, {x.data(), y.data()});
      for (size_t i = 0; i < x.size(); ++i) ASSERT_LE(y[i], 1) << scalar_op_name(op) << x[i];
    }
  }
}

TEST(ShortExponential, IsCloseWhereASoftmaxNeedsIt) {
  std::vector<float> x;
  for (const float value : swept_floats()) {
    if (value <= 0 || std::isnan(value)) x.push_back(value);
  }
  for (int i = 0; i < 200000; ++i) x.push_back(-static_cast<float>(i) * 0x1p-11f);
  while (x.size() % 16 != 0) x.push_back(-0.5f);
  std::vector<float> y(x.size());
  for (const Target& target : machine_widths()) {
    const auto count = static_cast<int64_t>(x.size());
    run_compiled(unary_kernel(ScalarOp::kExp, DType::kF32, count, target.lanes(4), true), target,
                 {x.data(), y.data()});
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(y[i]));
        continue;
      }
      const double exact = std::exp(static_cast<double>(x[i]));
      // The polynomial; the roundings of log2(e) and of its product with x.
      const double bound = exact * (2.5e-7 + std::fabs(x[i]) * 8e-8) + 1.2e-38;
      // Never denormal: processors stumble over that.
      ASSERT_TRUE(y[i] == 0 || y[i] >= 0x1p-126f) << x[i];
      if (x[i] < -104) {
        ASSERT_EQ(y[i], 0) << x[i];
      } else {
        ASSERT_NEAR(y[i], exact, bound) << x[i];
      }
    }
  }
}

/// Doubles of every exponent, more of them near 1, and the neighbours of where methods change.
std::vector<double> swept_doubles() {
  std::mt19937_64 random(7);
  std::vector<double> values;
  for (int i = 0; i < 30000; ++i) values.push_back(std::bit_cast<double>(random()));
  std::uniform_real_distribution<double> exponent(-40, 12), sign(-1, 1);
  for (int i = 0; i < 30000; ++i) {
    values.push_back(std::copysign(std::exp2(exponent(random)), sign(random)));
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (const double centre : {0.0, 0x1p-1022, 0.34657359, 0.41421356, 0.5, 0.70710678, 1.0,
                              1.41421356, 1.5707963267948966, 3.141592653589793, 6.0, 22.0,
                              709.78271, 745.13321, 0x1p20, 0x1p28, 0x1p53, 1e300, inf}) {
    for (int step = -20; step <= 20; ++step) {
      const auto bits = static_cast<int64_t>(std::bit_cast<uint64_t>(centre)) + step;
      const double value = std::bit_cast<double>(bits < 0 ? 0 : bits);
      values.push_back(value);
      values.push_back(-value);
    }
  }
  while (values.size() % 16 != 0) values.push_back(0.75);
  return values;
}

bool is_close(double got, long double exact) {
  const auto want = static_cast<double>(exact);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (got == want) return std::signbit(got) == std::signbit(want);
  if (std::isinf(got) || std::isinf(want)) {
    return std::fabs(exact) > 1.797e308L && std::fabs(got) > 1.797e308;
  }
  return std::fabs(got - exact) <= 1e-14L * std::fabs(exact) + 1e-323L;
}

struct DoubleFunction {
  ScalarOp op;
  long double (*exact)(long double);
};

class DoubleFunctions : public ::testing::TestWithParam<DoubleFunction> {};

TEST_P(DoubleFunctions, StayWithinTheirBound) {
  const DoubleFunction f = GetParam();
  std::vector<double> x = swept_doubles(), y(x.size());
  std::vector<long double> exact(x.size());
  for (size_t i = 0; i < x.size(); ++i) exact[i] = f.exact(x[i]);
  for (const Target& target : machine_widths()) {
    SCOPED_TRACE(target.vector_bytes);
    const auto count = static_cast<int64_t>(x.size());
    run_compiled(unary_kernel(f.op, DType::kF64, count, target.lanes(8)), target,
                 {x.data(), y.data()});
    int failures = 0;
    for (size_t i = 0; i < x.size() && failures < 5; ++i) {
      const bool close = is_close(y[i], exact[i]);
      EXPECT_TRUE(close) << scalar_op_name(f.op) << "(" << std::hexfloat << x[i] << ") = " << y[i]
                         << ", exactly " << static_cast<double>(exact[i]);
      failures += close ? 0 : 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DoubleFunctions,
    ::testing::Values(
        DoubleFunction{ScalarOp::kExp, std::exp}, DoubleFunction{ScalarOp::kExpm1, std::expm1},
        DoubleFunction{ScalarOp::kLog, std::log}, DoubleFunction{ScalarOp::kLog1p, std::log1p},
        DoubleFunction{ScalarOp::kSin, std::sin}, DoubleFunction{ScalarOp::kCos, std::cos},
        DoubleFunction{ScalarOp::kTan, std::tan}, DoubleFunction{ScalarOp::kAsin, std::asin},
        DoubleFunction{ScalarOp::kAcos, std::acos}, DoubleFunction{ScalarOp::kAtan, std::atan},
        DoubleFunction{ScalarOp::kSinh, std::sinh}, DoubleFunction{ScalarOp::kCosh, std::cosh},
        DoubleFunction{ScalarOp::kTanh, std::tanh}, DoubleFunction{ScalarOp::kAsinh, std::asinh},
        DoubleFunction{ScalarOp::kAcosh, std::acosh}, DoubleFunction{ScalarOp::kAtanh, std::atanh},
        DoubleFunction{ScalarOp::kErf, std::erf}, DoubleFunction{ScalarOp::kSigmoid, sigmoid_long}),
    [](const auto& test) { return std::string(scalar_op_name(test.param.op)); });

template <typename T>
KernelFunction binary_kernel(ScalarOp op, DType type, const std::vector<T>& x, int32_t lanes) {
  KernelFunction k;
  k.name = std::string(scalar_op_name(op));
  const auto count = static_cast<int64_t>(x.size());
  k.buffers = {make_buffer("x", type, KernelBuffer::Kind::kInput, count),
               make_buffer("y", type, KernelBuffer::Kind::kInput, count),
               make_buffer("z", type, KernelBuffer::Kind::kOutput, count)};
  KernelBuilder b(k);
  const auto [begin, end] = b.begin_phase(count);
  b.for_loop(begin, end, lanes, {}, [&](Reg iv, const std::vector<Reg>&) {
    b.store(2, iv, b.apply(op, {b.load(0, iv, lanes), b.load(1, iv, lanes)}, type));
    return std::vector<Reg>{};
  });
  b.end_phase();
  return k;
}

TEST(BinaryFunctions, PowerArctangentAndRemainderOfDoubles) {
  std::vector<double> x = swept_doubles(), y = x, z(x.size());
  std::mt19937_64 random(11);
  std::shuffle(y.begin(), y.end(), random);
  // Powers that neither overflow nor vanish, whole and broken exponents.
  std::uniform_real_distribution<double> size(-300, 300), broken(-20, 20);
  for (size_t i = 0; i < x.size() / 2; ++i) {
    x[i] = std::exp2(size(random) / 8);
    y[i] = i % 2 == 0 ? broken(random) : std::round(broken(random));
    if (i % 4 == 1) x[i] = -x[i];
  }
  using Exact = long double (*)(long double, long double);
  const std::pair<ScalarOp, Exact> functions[] = {
      {ScalarOp::kPow, std::pow}, {ScalarOp::kAtan2, std::atan2}, {ScalarOp::kRem, std::fmod}};
  for (const Target& target : machine_widths()) {
    for (const auto& [op, exact] : functions) {
      SCOPED_TRACE(std::string(scalar_op_name(op)) + std::to_string(target.vector_bytes));
      run_compiled(binary_kernel(op, DType::kF64, x, target.lanes(8)), target,
                   {x.data(), y.data(), z.data()});
      int failures = 0;
      for (size_t i = 0; i < x.size() && failures < 5; ++i) {
        const long double want = exact(x[i], y[i]);
        const bool close = op == ScalarOp::kRem && std::isfinite(want)
                               ? z[i] == static_cast<double>(want)
                               : is_close(z[i], want);
        EXPECT_TRUE(close) << std::hexfloat << x[i] << ", " << y[i] << " -> " << z[i]
                           << ", exactly " << static_cast<double>(want);
        failures += close ? 0 : 1;
      }
    }
  }
}

TEST(BinaryFunctions, PowerArctangentAndRemainderOfFloats) {
  std::vector<float> x = swept_floats(), y = x;
  std::mt19937_64 random(13);
  std::shuffle(y.begin(), y.end(), random);
  std::shuffle(x.begin(), x.end(), random);
  x.resize(1 << 18);
  y.resize(x.size());
  std::uniform_real_distribution<float> base(0.01f, 30.0f), exponent(-25, 25);
  for (size_t i = 0; i < x.size() / 2; ++i) {
    x[i] = base(random);
    y[i] = i % 2 == 0 ? exponent(random) : std::round(exponent(random));
    if (i % 4 == 1) x[i] = -x[i];
  }
  std::vector<float> z(x.size());
  using Exact = double (*)(double, double);
  const std::pair<ScalarOp, Exact> functions[] = {
      {ScalarOp::kPow, std::pow}, {ScalarOp::kAtan2, std::atan2}, {ScalarOp::kRem, std::fmod}};
  for (const Target& target : machine_widths()) {
    for (const auto& [op, exact] : functions) {
      SCOPED_TRACE(std::string(scalar_op_name(op)) + std::to_string(target.vector_bytes));
      run_compiled(binary_kernel(op, DType::kF32, x, target.lanes(4)), target,
                   {x.data(), y.data(), z.data()});
      double worst = 0;
      size_t at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double distance = ulps(z[i], exact(x[i], y[i]));
        if (distance > worst) {
          worst = distance;
          at = i;
        }
      }
      EXPECT_LE(worst, 0.51) << x[at] << ", " << y[at] << " -> " << z[at] << ", exactly "
                             << exact(x[at], y[at]);
    }
  }
}

}  // namespace
}  // namespace weft
