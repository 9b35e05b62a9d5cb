#include <fmt/format.h>

#include <limits>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

const double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

/// One instruction on x and y of the same type.
std::string on_two(std::string_view type, std::string_view result, std::string_view call) {
  return module_of(fmt::format("  x = {} parameter(0)\n  y = {} parameter(1)\n  ROOT r = {} {}",
                               type, type, result, call));
}

TEST(Elementwise, IsOneNode) {
  EXPECT_EQ(import_text(on_two("f32[3]", "f32[3]", "subtract(x, y)")),
            R"((arg0: f32[3], arg1: f32[3]) {
  out0 = sub arg0, arg1 : f32[3]
} -> (out0)
)");
}

TEST(Elementwise, TakesTruthValuesAsNumbersAreTaken) {
  const std::vector<HostTensor> inputs = {tensor_of(DType::kBool, {4}, {0, 0, 1, 1}),
                                          tensor_of(DType::kBool, {4}, {0, 1, 0, 1})};
  const auto result = [&](std::string_view call) {
    return run(on_two("pred[4]", "pred[4]", call), inputs);
  };
  expect_values(result("add(x, y)"), {0, 1, 1, 1});
  expect_values(result("multiply(x, y)"), {0, 0, 0, 1});
  expect_values(result("maximum(x, y)"), {0, 1, 1, 1});
  expect_values(result("minimum(x, y)"), {0, 0, 0, 1});
}

TEST(Elementwise, RoundsHalvesAwayFromZeroOrToEven) {
  const HostTensor x = floats({7}, {0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, -3});
  const std::string text = "  x = f32[7] parameter(0)\n  ROOT r = f32[7] ";
  expect_values(run(module_of(text + "round-nearest-afz(x)"), {x}), {1, 2, 3, -1, -3, 0, -3});
  expect_values(run(module_of(text + "round-nearest-even(x)"), {x}), {0, 2, 2, 0, -2, 0, -3});
}

TEST(Elementwise, ComparesInTotalOrder) {
  const HostTensor x = floats({5}, {-0.0, 0.0, kNan, kInf, -kInf});
  const HostTensor y = floats({5}, {0.0, -0.0, kInf, kNan, -1});
  const auto less = [&](std::string_view type) {
    return run(on_two("f32[5]", "pred[5]", fmt::format("compare(x, y), direction=LT{}", type)),
               {x, y});
  };
  expect_values(less(""), {0, 0, 0, 0, 1});
  expect_values(less(", type=TOTALORDER"), {1, 0, 0, 1, 1});
}

TEST(Elementwise, ShiftsByEitherSign) {
  const std::vector<HostTensor> inputs = {ints({4}, {-8, -8, 8, -1}), ints({4}, {1, 40, 2, 31})};
  const auto result = [&](std::string_view call) {
    return run(on_two("s32[4]", "s32[4]", call), inputs);
  };
  expect_values(result("shift-right-arithmetic(x, y)"), {-4, -1, 2, -1});
  expect_values(result("shift-right-logical(x, y)"), {2147483644, 0, 2, 1});
  expect_values(result("shift-left(x, y)"), {-16, 0, 32, -2147483648.0});
}

TEST(Elementwise, CountsBits) {
  const HostTensor x = ints({5}, {0, 1, -1, 255, -2147483648.0});
  const std::string text = "  x = s32[5] parameter(0)\n  ROOT r = s32[5] ";
  expect_values(run(module_of(text + "popcnt(x)"), {x}), {0, 1, 32, 8, 1});
  expect_values(run(module_of(text + "count-leading-zeros(x)"), {x}), {32, 31, 0, 24, 0});
}

TEST(Elementwise, ClampsByScalarsToo) {
  const std::string text = module_of(R"(  x = f32[4] parameter(0)
  low = f32[] constant(-1)
  high = f32[] constant(2)
  ROOT r = f32[4] clamp(low, x, high))");
  expect_values(run(text, {floats({4}, {-5, 0, 5, kNan})}), {-1, 0, 2, kNan});
}

TEST(Elementwise, RoundsToFewerBits) {
  const std::string text = module_of(R"(  x = f32[2] parameter(0)
  ROOT r = f32[2] reduce-precision(x), exponent_bits=8, mantissa_bits=7)");
  expect_values(run(text, {floats({2}, {1.00390625, 1.01171875})}), {1, 1.015625});
  EXPECT_THAT(import_error(module_of(R"(  x = f32[2] parameter(0)
  ROOT r = f32[2] reduce-precision(x), exponent_bits=4, mantissa_bits=3)"),
                           ErrorCode::kUnsupported),
              HasSubstr("4 bits of exponent"));
}

TEST(Elementwise, HoldsResultsToTheirDeclaration) {
  EXPECT_THAT(import_error(on_two("f32[3]", "f32[4]", "add(x, y)")),
              HasSubstr("line 6, column 3: add 'r': 'r' is declared f32[4] where it is f32[3]"));
  EXPECT_THAT(import_error(on_two("f32[3]", "pred[3]", "add(x, y)")),
              HasSubstr("declared pred[3]"));
  EXPECT_THAT(import_error(on_two("f32[3]", "f32[3]", "negate(x, y)")),
              HasSubstr("takes 1 operands, not 2"));
  EXPECT_THAT(import_error(on_two("f32[3]", "pred[3]", "compare(x, y)")),
              HasSubstr("no attribute 'direction'"));
}

TEST(Elementwise, ListsAllThatIsRefused) {
  const std::string message = import_error(module_of(R"(  x = f32[3] parameter(0)
  a = f32[3] custom-call(x), custom_call_target="my_kernel"
  b = f32[3] all-reduce(x)
  c = f32[3] add(a, b)
  ROOT t = (f32[3], f32[3]) tuple(c, x))"),
                                           ErrorCode::kUnsupported);
  EXPECT_THAT(message, HasSubstr("line 5, column 3: custom-call 'a': it calls 'my_kernel'"));
  EXPECT_THAT(message, HasSubstr("line 6, column 3: all-reduce 'b': there is no such"));
  EXPECT_THAT(message, Not(HasSubstr("'c'")));
}

TEST(Elementwise, IgnoresWhatTheRootDoesNotNeed) {
  EXPECT_EQ(import_text(module_of(R"(  x = f32[3] parameter(0)
  a = f32[3] custom-call(x), custom_call_target="my_kernel"
  ROOT t = f32[3] negate(x))")),
            R"((arg0: f32[3]) {
  out0 = neg arg0 : f32[3]
} -> (out0)
)");
}

TEST(Constants, AreReadInEveryForm) {
  const auto values =
      run_all(module_of(R"(  a = f32[2,2] constant({ { 1, -inf }, /*i0=1*/{ nan, 2.5e-3 } })
  b = pred[3] constant({true, 0, 1})
  c = (s32[], u64[2]) constant((-7, {18446744073709551615, 3}))
  d = f32[2,0] constant({ {}, {} })
  e = bf16[] constant(3.14)
  c1 = u64[2] get-tuple-element(c), index=1
  ROOT t = (f32[2,2], pred[3], u64[2], f32[2,0], bf16[]) tuple(a, b, c1, d, e))"),
              {});
  ASSERT_EQ(values.size(), 5U);
  expect_values(values[0], {1, -kInf, kNan, 2.5e-3});
  expect_values(values[1], {1, 0, 1});
  expect_values(values[2], {18446744073709551615.0, 3});
  EXPECT_TRUE(values[3].empty());
  expect_values(values[4], {3.140625});
}

TEST(Constants, MustFitTheirType) {
  const auto error = [](std::string_view constant) {
    return import_error(module_of("  ROOT c = " + std::string(constant)));
  };
  EXPECT_THAT(error("s8[] constant(300)"), HasSubstr("'300' is no i8"));
  EXPECT_THAT(error("f32[2] constant({1, x})"), HasSubstr("'x' is no f32"));
  EXPECT_THAT(error("f32[3] constant({1, 2})"), HasSubstr("expected ','"));
  EXPECT_THAT(error("f32[1] constant({1, 2})"), HasSubstr("expected '}'"));
  EXPECT_THAT(error("f32[1000000000] constant({1})"), HasSubstr("more elements than are written"));
}

TEST(Constants, ThatWereLeftOutSayHowToExportThem) {
  EXPECT_THAT(
      import_error(module_of("  ROOT c = f32[100] constant({...})"), ErrorCode::kUnsupported),
      HasSubstr("print_large_constants"));
}

}  // namespace
}  // namespace weft::hlo
