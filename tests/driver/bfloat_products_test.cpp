#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "codegen/cpu/code_features.h"
#include "driver/compiler.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "target/multiplies_bfloat16.h"

namespace weft {
namespace {

/// Multiples of `unit` from -most to most, and a little more that rounding to bfloat16 takes away:
/// sums of their products are exact in float32, in any order.
double number(std::mt19937& random, int most, double unit) {
  const int n = static_cast<int>(random() % static_cast<unsigned>(2 * most + 1)) - most;
  return n == 0 ? 0 : n * unit + 0x1p-11 * (random() % 2 == 0 ? 1 : -1);
}

std::string constant(int64_t count, int most, double unit, uint32_t seed) {
  std::mt19937 random(seed);
  std::string out;
  for (int64_t i = 0; i < count; ++i)
    out += fmt::format("{}{}", i == 0 ? "{" : ", ", number(random, most, unit));
  return out + "}";
}

/// "%x" is x in the model; where `rounds`, what a conversion to bfloat16 leaves of it, which is
/// written before.
class Lines {
 public:
  explicit Lines(bool rounds) : rounds_(rounds) {}
  void add(const std::string& line) { text_ += "  " + line + "\n"; }
  std::string factor(const std::string& name, const std::string& shape) {
    if (!rounds_) return name;
    add(fmt::format("{0}_h = convert {0} : bf16{1}", name, shape));
    add(fmt::format("{0}_r = convert {0}_h : f32{1}", name, shape));
    return name + "_r";
  }
  const std::string& text() const { return text_; }

 private:
  bool rounds_;
  std::string text_;
};

/// Two products with constants, what is between them also read by itself.
std::string products(int64_t rows, int64_t depth, int64_t columns, bool rounds) {
  const auto shape = [](int64_t a, int64_t b) { return fmt::format("[{},{}]", a, b); };
  const std::string x = shape(rows, depth), w = shape(depth, columns), p = shape(rows, columns);
  Lines lines(rounds);
  lines.add("w = constant " + constant(depth * columns, 7, 0.25, 1) + " : f32" + w);
  lines.add("v = constant " + constant(columns * 5, 3, 1, 2) + " : f32" + shape(columns, 5));
  const std::string a = lines.factor("x", x), b = lines.factor("w", w);
  lines.add(fmt::format("p = dot_general {}, {}, lhs_contract={{1}}, rhs_contract={{0}} : f32{}", a,
                        b, p));
  lines.add("q = abs p : f32" + p);
  const std::string c = lines.factor("q", p), d = lines.factor("v", shape(columns, 5));
  lines.add(fmt::format("y = dot_general {}, {}, lhs_contract={{1}}, rhs_contract={{0}} : f32{}", c,
                        d, shape(rows, 5)));
  return "(x: f32" + x + ") {\n" + lines.text() + "} -> (y, p)";
}

/// A convolution with padding, and one of single pixels behind it.
std::string convolutions(int64_t channels, bool rounds) {
  const std::string x = fmt::format("[1,{},7,9]", channels),
                    w = fmt::format("[10,{},3,3]", channels);
  Lines lines(rounds);
  lines.add("w = constant " + constant(10 * channels * 9, 7, 0.25, 3) + " : f32" + w);
  lines.add("u = constant " + constant(12 * 10, 3, 1, 4) + " : f32[12,10,1,1]");
  const auto convolution = [](const std::string& of, int64_t pad, int64_t stride) -> std::string {
    return fmt::format(
        "convolution {0}, strides={{{2},{2}}}, low={{{1},{1}}}, high={{{1},{1}}}, "
        "lhs_dilations={{1,1}}, rhs_dilations={{1,1}}, groups=1",
        of, pad, stride);
  };
  const std::string a = lines.factor("x", x), b = lines.factor("w", w);
  lines.add("p = " + convolution(a + ", " + b, 1, 1) + " : f32[1,10,7,9]");
  lines.add("q = abs p : f32[1,10,7,9]");
  const std::string c = lines.factor("q", "[1,10,7,9]"), d = lines.factor("u", "[12,10,1,1]");
  lines.add("y = " + convolution(c + ", " + d, 0, 2) + " : f32[1,12,4,5]");
  return "(x: f32" + x + ") {\n" + lines.text() + "} -> (y)";
}

/// Machines of each width that this one can be, with and without an instruction for bfloat16.
std::vector<Target> machines() {
  std::vector<Target> out;
  for (const int width : {16, 32, 64}) {
    Target target = host_cpu_target(1, width);
    if (target.vector_bytes != width) continue;
    out.push_back(portable(target));
    if (multiplies_bfloat16(target)) out.push_back(std::move(target));
  }
  return out;
}

bool has_dot(const KernelBlock& block) {
  return std::ranges::any_of(block.body, [](const KernelInstruction& in) {
    return in.op == KernelOp::kDot || std::ranges::any_of(in.regions, has_dot);
  });
}

std::vector<HostTensor> run_rounded(const std::string& text, const Target& target,
                                    const std::vector<HostTensor>& inputs) {
  CompileOptions options;
  options.verify = true;
  options.device = target;
  options.precision = Precision::kBFloat16;
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  if (!graph.ok()) return {};
  auto compiled = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  if (!compiled.ok()) return {};
  const Compilation& c = **compiled;
  const bool dots = std::ranges::any_of(c.kernels, [](const CompiledKernel& k) {
    return std::ranges::any_of(k.function.phases,
                               [](const KernelPhase& phase) { return has_dot(phase.body); });
  });
  EXPECT_EQ(dots, multiplies_bfloat16(target));
  const auto& needed = c.program.required_features;
  EXPECT_EQ(std::ranges::find(needed, "avx512bf16") != needed.end(), dots);
  EXPECT_FALSE(c.substitutions.empty());
  auto session = Session::create(c.program, 1);
  EXPECT_TRUE(session.ok());
  if (!session.ok()) return {};
  auto outputs = (*session)->run(inputs);
  EXPECT_TRUE(outputs.ok());
  return outputs.ok() ? std::move(*outputs) : std::vector<HostTensor>();
}

std::vector<HostTensor> interpreted(const std::string& text,
                                    const std::vector<HostTensor>& inputs) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  if (!graph.ok()) return {};
  auto outputs = interpret(*graph, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return outputs.ok() ? std::move(*outputs) : std::vector<HostTensor>();
}

/// Whether the code computes what the interpreter does of the graph whose factors are rounded by
/// conversions, number for number.
void expect_exact(const std::string& text, const std::string& rounding, Shape shape) {
  std::mt19937 random(7);
  HostTensor x(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, number(random, 15, 0.5));
  const std::vector<HostTensor> expected = interpreted(rounding, {x});
  for (const Target& target : machines()) {
    SCOPED_TRACE(
        fmt::format("{} bytes, bfloat16 {}", target.vector_bytes, multiplies_bfloat16(target)));
    const std::vector<HostTensor> got = run_rounded(text, target, {x});
    ASSERT_EQ(got.size(), expected.size());
    for (size_t o = 0; o < got.size(); ++o) {
      for (int64_t i = 0; i < expected[o].size(); ++i) {
        ASSERT_EQ(got[o].at_double(i), expected[o].at_double(i))
            << "output " << o << ", element " << i;
      }
    }
  }
}

TEST(BFloatProducts, ComputeWhatTheInterpreterDoesOfRoundedFactors) {
  for (const int64_t rows : {1, 13, 32}) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    const int64_t depth = rows == 32 ? 64 : 37, columns = rows == 32 ? 96 : 61;
    expect_exact(products(rows, depth, columns, false), products(rows, depth, columns, true),
                 {rows, depth});
    if (HasFatalFailure()) return;
  }
}

TEST(BFloatProducts, SlideOverPadding) {
  for (const int64_t channels : {3, 8}) {
    SCOPED_TRACE(fmt::format("{} channels", channels));
    expect_exact(convolutions(channels, false), convolutions(channels, true), {1, channels, 7, 9});
    if (HasFatalFailure()) return;
  }
}

/// A product of rows with special numbers.
std::string of_rows(int64_t rows, bool rounds) {
  Lines lines(rounds);
  lines.add("w = constant " + constant(12 * 6, 7, 0.25, 5) + " : f32[12,6]");
  const std::string x = fmt::format("[{},12]", rows);
  const std::string a = lines.factor("x", x), b = lines.factor("w", "[12,6]");
  lines.add(fmt::format(
      "y = dot_general {}, {}, lhs_contract={{1}}, rhs_contract={{0}} : f32[{},6]", a, b, rows));
  return "(x: f32" + x + ") {\n" + lines.text() + "} -> (y)";
}

TEST(BFloatProducts, InfinitiesAndNaNAreThoseOfRoundedFactors) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // The largest float32 rounds to infinity.
  const std::vector<double> specials = {kInfinity,
                                        -kInfinity,
                                        std::numeric_limits<double>::quiet_NaN(),
                                        static_cast<double>(std::numeric_limits<float>::max()),
                                        0x1.fep127,
                                        -0.0};
  const auto rows = static_cast<int64_t>(specials.size());
  HostTensor x(DType::kF32, {rows, 12});
  for (int64_t i = 0; i < x.size(); ++i)
    x.set_double(i, i % 12 == 5 ? specials[static_cast<size_t>(i / 12)] : 0.5 * (i % 3));
  const std::vector<HostTensor> expected = interpreted(of_rows(rows, true), {x});
  for (const Target& target : machines()) {
    SCOPED_TRACE(target.vector_bytes);
    const std::vector<HostTensor> got = run_rounded(of_rows(rows, false), target, {x});
    ASSERT_EQ(got.size(), 1U);
    for (int64_t i = 0; i < expected[0].size(); ++i) {
      const double e = expected[0].at_double(i), g = got[0].at_double(i);
      EXPECT_TRUE(e == g || (std::isnan(e) && std::isnan(g))) << i << ": " << g << " for " << e;
    }
  }
}

TEST(BFloatProducts, FactorsBelowTheNormalNumbersMayCountAsZero) {
  HostTensor x(DType::kF32, {2, 12}), zeros(DType::kF32, {2, 12});
  for (int64_t i = 0; i < x.size(); ++i) {
    const bool tiny = i % 4 == 1;
    x.set_double(i, tiny ? 0x1p-128 : 0x1p-100);
    zeros.set_double(i, tiny ? 0 : 0x1p-100);
  }
  const double with = interpreted(of_rows(2, true), {x})[0].at_double(0);
  const double without = interpreted(of_rows(2, true), {zeros})[0].at_double(0);
  for (const Target& target : machines()) {
    const std::vector<HostTensor> got = run_rounded(of_rows(2, false), target, {x});
    ASSERT_EQ(got.size(), 1U);
    const double y = got[0].at_double(0);
    EXPECT_TRUE(y == with || y == without) << y;
  }
}

TEST(BFloatProducts, AModelOfBFloat16IsMultipliedInPairsAsItIs) {
  const std::string text = "(x: bf16[9,12]) {\n  w = constant " + constant(12 * 6, 7, 0.25, 6) +
                           R"( : bf16[12,6]
  a = abs x : bf16[9,12]
  y = dot_general a, w, lhs_contract={1}, rhs_contract={0} : bf16[9,6]
} -> (y))";
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  HostTensor x(DType::kBF16, {9, 12});
  std::mt19937 random(3);
  for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, number(random, 15, 0.5));
  const std::vector<HostTensor> expected = interpreted(text, {x});
  for (const Target& target : machines()) {
    CompileOptions options;
    options.verify = true;
    options.device = target;
    auto compiled = compile_graph(*graph, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    const auto& needed = (*compiled)->program.required_features;
    EXPECT_EQ(std::ranges::find(needed, "avx512bf16") != needed.end(), multiplies_bfloat16(target));
    EXPECT_TRUE((*compiled)->substitutions.empty());
    auto session = Session::create((*compiled)->program, 1);
    ASSERT_TRUE(session.ok());
    auto outputs = (*session)->run({x});
    ASSERT_TRUE(outputs.ok());
    for (int64_t i = 0; i < expected[0].size(); ++i)
      ASSERT_EQ((*outputs)[0].at_double(i), expected[0].at_double(i)) << i;
  }
}

TEST(Precision, IsRefusedOnGpusAndNamedInMessages) {
  EXPECT_EQ(parse_precision("f64").error().message,
            "there is no precision 'f64'; known: model, bf16");
  CompileOptions options;
  options.device = *find_target("h100-sxm");
  options.precision = Precision::kBFloat16;
  auto graph = parse_graph(of_rows(2, false));
  ASSERT_TRUE(graph.ok());
  auto compiled = compile_graph(std::move(*graph), options);
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace weft
