#include <fmt/format.h>

#include <complex>
#include <functional>
#include <numbers>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;
using Complex = std::complex<double>;

/// Inputs and outputs are arrays of their parts.
HostTensor numbers(Shape shape, const std::vector<Complex>& values) {
  std::vector<double> parts;
  for (const Complex& z : values) parts.insert(parts.end(), {z.real(), z.imag()});
  shape.push_back(2);
  return floats(std::move(shape), parts);
}

void expect_numbers(const std::vector<double>& actual, const std::vector<Complex>& expected,
                    double tolerance = 2e-6) {
  ASSERT_EQ(actual.size(), 2 * expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Complex z(actual[2 * i], actual[2 * i + 1]);
    EXPECT_LE(std::abs(z - expected[i]), tolerance * (1 + std::abs(expected[i])))
        << "element " << i << ": " << z.real() << " + " << z.imag() << "i instead of "
        << expected[i].real() << " + " << expected[i].imag() << "i";
  }
}

TEST(Complex, ComesAndGoesAsArraysOfParts) {
  EXPECT_EQ(import_text(module_of(R"(  z = c64[3] parameter(0)
  w = c64[3] parameter(1)
  ROOT r = c64[3] add(z, w))")),
            R"((arg0: f32[3,2], arg1: f32[3,2]) {
  v2 = slice arg0, start={0,0}, step={1,1} : f32[3,1]
  v3 = reshape v2 : f32[3]
  v4 = slice arg0, start={0,1}, step={1,1} : f32[3,1]
  v5 = reshape v4 : f32[3]
  v6 = slice arg1, start={0,0}, step={1,1} : f32[3,1]
  v7 = reshape v6 : f32[3]
  v8 = slice arg1, start={0,1}, step={1,1} : f32[3,1]
  v9 = reshape v8 : f32[3]
  v10 = add v3, v7 : f32[3]
  v11 = add v5, v9 : f32[3]
  v12 = reshape v10 : f32[3,1]
  v13 = reshape v11 : f32[3,1]
  out0 = concat v12, v13, axis=1 : f32[3,2]
} -> (out0)
)");
}

const std::vector<Complex> kNumbers = {{1, 2},  {-3, 0.5}, {0.25, -4},   {-1, -1},
                                       {2, 0},  {-2, 0},   {0, 1.5},     {0, -0.5},
                                       {30, 1}, {-30, 2},  {1e-3, 2e-3}, {3e20, 4e20}};

TEST(Complex, HasFunctionsOfOneNumber) {
  using Function = std::function<Complex(Complex)>;
  const std::pair<std::string, Function> cases[] = {
      {"negate", [](Complex z) { return -z; }},
      {"exponential", [](Complex z) { return std::exp(z); }},
      {"log", [](Complex z) { return std::log(z); }},
      {"log-plus-one", [](Complex z) { return std::log(z + 1.0); }},
      {"exponential-minus-one", [](Complex z) { return std::exp(z) - 1.0; }},
      {"sqrt", [](Complex z) { return std::sqrt(z); }},
      {"rsqrt", [](Complex z) { return 1.0 / std::sqrt(z); }},
      {"tanh", [](Complex z) { return std::tanh(z); }},
      {"sine", [](Complex z) { return std::sin(z); }},
      {"cosine", [](Complex z) { return std::cos(z); }},
      {"tan", [](Complex z) { return std::tan(z); }},
      {"logistic", [](Complex z) { return 1.0 / (1.0 + std::exp(-z)); }},
      {"sign", [](Complex z) { return z / std::abs(z); }},
  };
  for (const auto& [opcode, function] : cases) {
    SCOPED_TRACE(opcode);
    // The largest number is for what takes a magnitude alone.
    const bool is_bounded = opcode == "negate" || opcode == "sign" || opcode == "log" ||
                            opcode == "sqrt" || opcode == "rsqrt";
    std::vector<Complex> given = kNumbers, expected;
    if (!is_bounded) given.pop_back();
    for (const Complex& z : given) expected.push_back(function(z));
    const auto count = static_cast<int64_t>(given.size());
    const std::string text = module_of(
        fmt::format("  z = c64[{0}] parameter(0)\n  ROOT r = c64[{0}] {1}(z)", count, opcode));
    expect_numbers(run(text, {numbers({count}, given)}), expected);
  }
}

TEST(Complex, HasArithmetic) {
  using Function = std::function<Complex(Complex, Complex)>;
  const std::pair<std::string, Function> cases[] = {
      {"add", [](Complex z, Complex w) { return z + w; }},
      {"subtract", [](Complex z, Complex w) { return z - w; }},
      {"multiply", [](Complex z, Complex w) { return z * w; }},
      {"divide", [](Complex z, Complex w) { return z / w; }},
      {"power", [](Complex z, Complex w) { return std::pow(z, w); }},
  };
  const std::vector<Complex> z = {{1, 2}, {-3, 0.5}, {0.25, -4}, {-1, -1}};
  const std::vector<Complex> w = {{0.5, -1}, {2, 0}, {-1, 0.25}, {0.125, 3}};
  for (const auto& [opcode, function] : cases) {
    SCOPED_TRACE(opcode);
    std::vector<Complex> expected;
    for (size_t i = 0; i < z.size(); ++i) expected.push_back(function(z[i], w[i]));
    const std::string text = module_of(fmt::format(R"(  z = c64[4] parameter(0)
  w = c64[4] parameter(1)
  ROOT r = c64[4] {}(z, w))",
                                                   opcode));
    expect_numbers(run(text, {numbers({4}, z), numbers({4}, w)}), expected, 1e-5);
  }
  // Neither the square of the divisor nor its inverse is a float32.
  const std::string divide = module_of(R"(  z = c64[1] parameter(0)
  ROOT r = c64[1] divide(z, z))");
  expect_numbers(run(divide, {numbers({1}, {{3e30, -4e30}})}), {{1, 0}});
  expect_numbers(run(divide, {numbers({1}, {{3e-30, -4e-30}})}), {{1, 0}});
}

TEST(Complex, HasMagnitudesPartsAndEquality) {
  const auto values = run_all(module_of(R"(  z = c64[3] parameter(0)
  w = c64[3] constant({(3, 4), (0, 0), (inf, -1)})
  m = f32[3] abs(w)
  re = f32[3] real(w)
  im = f32[3] imag(w)
  same = pred[3] compare(z, w), direction=EQ
  other = pred[3] compare(z, w), direction=NE
  ROOT t = (f32[3], f32[3], f32[3], pred[3], pred[3]) tuple(m, re, im, same, other))"),
                              {numbers({3}, {{3, 4}, {0, 1}, {1, -1}})});
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(values, (std::vector<std::vector<double>>{
                        {5, 0, infinity}, {3, 0, infinity}, {4, 0, -1}, {1, 0, 0}, {0, 1, 1}}));
}

TEST(Complex, IsMadeOfRealNumbers) {
  const std::string text = module_of(R"(  x = f32[2] parameter(0)
  a = c64[2] convert(x)
  i = c64[] constant((0, 1))
  b = c64[2] broadcast(i), dimensions={}
  c = c64[2] multiply(a, b)
  d = c64[2] complex(x, x)
  e = c64[2] iota(), iota_dimension=0
  f = c64[2] add(c, d)
  ROOT r = c64[2] add(e, f))");
  expect_numbers(run(text, {floats({2}, {3, -5})}), {{3, 6}, {-4, -10}});
}

TEST(Complex, HasProductsOfMatrices) {
  const std::string text = module_of(R"(  z = c64[1,2] parameter(0)
  w = c64[2,1] parameter(1)
  ROOT r = c64[1,1] dot(z, w), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  const Complex a(1, 2), b(3, -1), c(0.5, 4), d(-2, 1);
  expect_numbers(run(text, {numbers({1, 2}, {a, b}), numbers({2, 1}, {c, d})}), {a * c + b * d});
}

TEST(Complex, IsSummedAndScattered) {
  constexpr std::string_view kJoin = R"(add {
  a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT c = c64[] add(a, b)
}
second {
  a = c64[] parameter(0)
  ROOT b = c64[] parameter(1)
}
multiply {
  a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT c = c64[] multiply(a, b)
})";
  const HostTensor z = numbers({3}, {{1, 2}, {3, 4}, {5, 6}});
  expect_numbers(run(module_of(R"(  z = c64[3] parameter(0)
  zero = c64[] constant((0, 0))
  ROOT r = c64[] reduce(z, zero), dimensions={0}, to_apply=add)",
                               kJoin),
                     {z}),
                 {{9, 12}});
  const auto scatter = [&](std::string_view join) {
    return run(module_of(fmt::format(R"(  z = c64[3] parameter(0)
  i = s32[2,1] constant({{ {{2}}, {{0}} }})
  u = c64[2] constant({{(10, 20), (30, 40)}})
  ROOT r = c64[3] scatter(z, i, u), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={})",
                                     join),
                         kJoin),
               {z});
  };
  expect_numbers(scatter("add"), {{31, 42}, {3, 4}, {15, 26}});
  expect_numbers(scatter("second"), {{30, 40}, {3, 4}, {10, 20}});
  EXPECT_THAT(import_error(module_of(R"(  z = c64[3] parameter(0)
  one = c64[] constant((1, 0))
  ROOT r = c64[] reduce(z, one), dimensions={0}, to_apply=multiply)",
                                     kJoin),
                           ErrorCode::kUnsupported),
              HasSubstr("complex numbers joined by other than a sum"));
}

TEST(Complex, IsCarriedAndStackedByLoops) {
  // h is turned by i in each of four steps, whose values are stacked.
  const std::string text = module_of(R"(  h = c64[] constant((1, 0))
  turn = c64[] constant((0, 1))
  ys = c64[4] broadcast(h), dimensions={}
  zero = s32[] constant(0)
  in = (s32[], c64[], c64[], c64[4]) tuple(zero, turn, h, ys)
  w = (s32[], c64[], c64[], c64[4]) while(in), condition=more, body=step
  last = c64[] get-tuple-element(w), index=2
  stacked = c64[4] get-tuple-element(w), index=3
  ROOT r = (c64[], c64[4]) tuple(last, stacked))",
                                     R"(more {
  p = (s32[], c64[], c64[], c64[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}
step {
  p = (s32[], c64[], c64[], c64[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  turn = c64[] get-tuple-element(p), index=1
  h = c64[] get-tuple-element(p), index=2
  ys = c64[4] get-tuple-element(p), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  turned = c64[] multiply(h, turn)
  row = c64[1] reshape(turned)
  stacked = c64[4] dynamic-update-slice(ys, row, i)
  ROOT t = (s32[], c64[], c64[], c64[4]) tuple(next, turn, turned, stacked)
})");
  const auto values = run_all(text, {});
  ASSERT_EQ(values.size(), 2U);
  expect_numbers(values[0], {{1, 0}});
  expect_numbers(values[1], {{0, 1}, {-1, 0}, {0, -1}, {1, 0}});
  EXPECT_THAT(import_text(text), HasSubstr("scan"));
}

TEST(Complex, IsRefusedWhereItHasNoOrder) {
  EXPECT_THAT(import_error(module_of(R"(  z = c64[3] parameter(0)
  ROOT r = c64[3] maximum(z, z))"),
                           ErrorCode::kUnsupported),
              HasSubstr("maximum 'r': complex numbers in 'maximum'"));
  EXPECT_THAT(import_error(module_of(R"(  z = c64[3] parameter(0)
  ROOT r = pred[3] compare(z, z), direction=LT)")),
              HasSubstr("complex numbers have no order"));
  EXPECT_THAT(import_error(module_of("  ROOT r = c64[] constant(1)")), HasSubstr("expected '('"));
  EXPECT_THAT(import_error(module_of(R"(  x = f32[3] parameter(0)
  ROOT r = c64[3] negate(x))")),
              HasSubstr("operand 0 is not complex"));
}

std::vector<Complex> signal_of(int64_t points) {
  std::vector<Complex> x;
  for (int64_t j = 0; j < points; ++j) {
    const auto t = static_cast<double>(j);
    x.emplace_back(std::sin(0.7 * t) + 0.01 * static_cast<double>(j % 7), std::cos(t * t));
  }
  return x;
}

std::vector<Complex> transformed(const std::vector<Complex>& x, bool inverse) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<Complex> y;
  for (int64_t k = 0; k < n; ++k) {
    Complex sum;
    for (int64_t j = 0; j < n; ++j) {
      const double turn = static_cast<double>(j * k % n) / static_cast<double>(n);
      sum +=
          x[static_cast<size_t>(j)] * std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * turn);
    }
    y.push_back(inverse ? sum / static_cast<double>(n) : sum);
  }
  return y;
}

/// One product; two factors; an odd square; a prime as one product; its double; three factors.
constexpr int64_t kLengths[] = {1, 12, 360, 289, 101, 2 * 101, 3 * 103, 1372, 2809};

TEST(Fft, TransformsAnyLength) {
  for (const int64_t n : kLengths) {
    SCOPED_TRACE(n);
    const std::vector<Complex> x = signal_of(n);
    for (const bool inverse : {false, true}) {
      const std::string text =
          module_of(fmt::format("  x = c64[{0}] parameter(0)\n  ROOT r = c64[{0}] fft(x), "
                                "fft_type={1}, fft_length={{{0}}}",
                                n, inverse ? "IFFT" : "FFT"));
      expect_numbers(run(text, {numbers({n}, x)}), transformed(x, inverse), 1e-4);
    }
  }
}

TEST(Fft, TransformsRealSignalsThereAndBack) {
  for (const int64_t n : kLengths) {
    SCOPED_TRACE(n);
    std::vector<double> real;
    std::vector<Complex> x;
    for (const Complex& z : signal_of(n)) {
      real.push_back(z.real());
      x.emplace_back(z.real());
    }
    std::vector<Complex> expected = transformed(x, false);
    expected.resize(static_cast<size_t>(n / 2 + 1));
    const auto values = run_all(module_of(fmt::format(R"(  x = f32[{0}] parameter(0)
  y = c64[{1}] fft(x), fft_type=RFFT, fft_length={{{0}}}
  z = f32[{0}] fft(y), fft_type=IRFFT, fft_length={{{0}}}
  ROOT t = (c64[{1}], f32[{0}]) tuple(y, z))",
                                                      n, n / 2 + 1)),
                                {floats({n}, real)});
    ASSERT_EQ(values.size(), 2U);
    expect_numbers(values[0], expected, 1e-4);
    ASSERT_EQ(values[1].size(), real.size());
    for (size_t i = 0; i < real.size(); ++i) EXPECT_NEAR(values[1][i], real[i], 1e-5);
  }
}

TEST(Fft, TransformsSeveralAxes) {
  const std::vector<Complex> x = signal_of(12);  // 2 x 3 x 2, of which the last two
  std::vector<Complex> expected;
  for (size_t row = 0; row < 12; row += 6) {
    for (size_t k = 0; k < 6; ++k) {
      Complex sum;
      for (size_t j = 0; j < 6; ++j) {
        const double turns =
            static_cast<double>(j / 2 * (k / 2)) / 3 + static_cast<double>(j % 2 * (k % 2)) / 2;
        sum += x[row + j] * std::polar(1.0, -2 * std::numbers::pi * turns);
      }
      expected.push_back(sum);
    }
  }
  const std::string text = module_of(
      "  x = c64[2,3,2] parameter(0)\n  ROOT r = c64[2,3,2] fft(x), fft_type=FFT, "
      "fft_length={3,2}");
  expect_numbers(run(text, {numbers({2, 3, 2}, x)}), expected);
}

TEST(Fft, RefusesWhatItCannotSplit) {
  const auto error = [](int64_t length, std::string_view type, ErrorCode code) {
    return import_error(module_of(fmt::format("  x = c64[{0}] parameter(0)\n  ROOT r = c64[{0}] "
                                              "fft(x), fft_type={1}, fft_length={{{0}}}",
                                              length, type)),
                        code);
  };
  EXPECT_THAT(error(2 * 5003, "FFT", ErrorCode::kUnsupported), HasSubstr("has the factor 5003"));
  EXPECT_THAT(error(1 << 21, "FFT", ErrorCode::kUnsupported), HasSubstr("of 2097152 points"));
  EXPECT_THAT(error(8, "DCT", ErrorCode::kInvalidInput), HasSubstr("no fft_type 'DCT'"));
  EXPECT_THAT(error(8, "RFFT", ErrorCode::kInvalidInput), HasSubstr("RFFT takes real numbers"));
}

TEST(Fft, MayNotTakeMoreMemoryThanTheModuleJustifies) {
  std::string body = "  x0 = c64[4093] parameter(0)\n";
  for (int i = 0; i < 20; ++i) {
    body += fmt::format("  {}x{} = c64[4093] fft(x{}), fft_type=FFT, fft_length={{4093}}\n",
                        i == 19 ? "ROOT " : "", i + 1, i);
  }
  EXPECT_THAT(import_error(module_of(body)), HasSubstr("too many instructions"));
}

}  // namespace
}  // namespace weft::hlo
