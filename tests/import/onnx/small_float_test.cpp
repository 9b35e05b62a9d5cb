#include "import/builder/small_float.h"

#include <cmath>
#include <limits>
#include <map>

#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

constexpr int kE4M3Fn = 17, kE4M3FnUz = 18, kE5M2 = 19, kE5M2FnUz = 20, kE2M1 = 23, kE8M0 = 24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

/// The codes of `x` in the ONNX type `to`.
std::vector<double> codes(int to, const std::vector<float>& x,
                          const std::vector<std::string>& more = {}) {
  const auto size = static_cast<int64_t>(x.size());
  std::vector<std::string> attributes = {int_attr("to", to)};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return OneNode{"Cast", {f32_tensor({size}, x)}, attributes, 25}.run_for({size});
}

/// What `count` codes from 0 on mean.
std::vector<double> numbers(int type, int count) {
  std::string message, bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i));
  if (type == kE2M1) {
    bytes.clear();
    for (int i = 0; i < count; i += 2) bytes.push_back(static_cast<char>(i | (i + 1) << 4));
  }
  protozero::pbf_writer writer(message);
  writer.add_int64(1, count);
  writer.add_int32(2, type);
  writer.add_string(8, "w");
  writer.add_bytes(9, bytes);
  TestModel model;
  model.opset(25).initializer_message(message);
  model.node({"Cast", {"w"}, {"y"}, {int_attr("to", 1)}}).output("y");
  return run_for_values(model.model(), {});
}

/// By the formats' definition, without arithmetic on bits.
double number(const SmallFloat& f, int code) {
  const int sign_bit = 1 << (f.exponent_bits + f.mantissa_bits);
  const int mantissa = code & ((1 << f.mantissa_bits) - 1);
  const int exponent = (code & (sign_bit - 1)) >> f.mantissa_bits;
  const double sign = (code & sign_bit) != 0 ? -1 : 1;
  const double part = std::ldexp(mantissa, -f.mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(part, 1 - f.bias);
  return sign * std::ldexp(1 + part, exponent - f.bias);
}

TEST(SmallFloats, MeanWhatTheirFormatSays) {
  const auto check = [](int type, const SmallFloat& f, const std::map<int, double>& specials) {
    const int count = 2 << (f.exponent_bits + f.mantissa_bits);
    const std::vector<double> actual = numbers(type, count);
    for (int code = 0; code < count; ++code) {
      const auto special = specials.find(code);
      const double expected = special == specials.end() ? number(f, code) : special->second;
      const double got = actual[static_cast<size_t>(code)];
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << type << ": " << code;
      } else {
        EXPECT_EQ(got, expected) << type << ": " << code;
        EXPECT_EQ(std::signbit(got), std::signbit(expected)) << type << ": " << code;
      }
    }
  };
  check(kE2M1, kFloat4E2M1, {});
  check(kE4M3Fn, kFloat8E4M3Fn, {{0x7f, kNan}, {0xff, kNan}});
  check(kE4M3FnUz, kFloat8E4M3FnUz, {{0x80, kNan}});
  check(kE5M2FnUz, kFloat8E5M2FnUz, {{0x80, kNan}});
  check(kE5M2, kFloat8E5M2,
        {{0x7c, kInfinity},
         {0x7d, kNan},
         {0x7e, kNan},
         {0x7f, kNan},
         {0xfc, -kInfinity},
         {0xfd, kNan},
         {0xfe, kNan},
         {0xff, kNan}});
  const std::vector<double> powers = numbers(kE8M0, 256);
  for (int code = 0; code < 255; ++code)
    EXPECT_EQ(powers[static_cast<size_t>(code)], std::ldexp(1, code - 127));
  EXPECT_TRUE(std::isnan(powers[255]));
}

/// Numbers come back as the code that they were read from; halfway between two codes the even one
/// is taken, and of both sides the nearer.
TEST(SmallFloats, RoundToTheNearestCode) {
  const auto check = [](int type, const SmallFloat& f, int last) {
    for (int code = 0; code < last; ++code) {
      const double here = number(f, code), next = number(f, code + 1);
      const auto middle = static_cast<float>((here + next) / 2);
      const double even = code % 2 == 0 ? code : code + 1;
      EXPECT_EQ(codes(type, {static_cast<float>(here), middle, std::nextafter(middle, 0.0F),
                             std::nextafter(middle, kInfinity), -static_cast<float>(next)}),
                (std::vector<double>{double(code), even, double(code), code + 1.0,
                                     code + 1.0 + (1 << (f.exponent_bits + f.mantissa_bits))}))
          << type << ": " << code;
    }
  };
  check(kE2M1, kFloat4E2M1, 7);
  check(kE4M3Fn, kFloat8E4M3Fn, 0x7e);
}

TEST(SmallFloats, GoWhereTheTablesOfCastSay) {
  const std::vector<float> ends = {0.0F, -0.0F, kInfinity, -kInfinity, 1e9F, -1e9F};
  using Codes = std::vector<double>;
  EXPECT_EQ(codes(kE4M3Fn, ends), (Codes{0, 0x80, 0x7e, 0xfe, 0x7e, 0xfe}));
  EXPECT_EQ(codes(kE4M3FnUz, ends), (Codes{0, 0, 0x7f, 0xff, 0x7f, 0xff}));
  EXPECT_EQ(codes(kE5M2, ends), (Codes{0, 0x80, 0x7b, 0xfb, 0x7b, 0xfb}));
  EXPECT_EQ(codes(kE2M1, ends), (Codes{0, 8, 7, 15, 7, 15}));
  const auto strict = [&](int type) { return codes(type, ends, {int_attr("saturate", 0)}); };
  EXPECT_EQ(strict(kE4M3Fn), (Codes{0, 0x80, 0x7f, 0xff, 0x7f, 0xff}));
  EXPECT_EQ(strict(kE4M3FnUz), (Codes{0, 0, 0x80, 0x80, 0x80, 0x80}));
  EXPECT_EQ(strict(kE5M2), (Codes{0, 0x80, 0x7c, 0xfc, 0x7c, 0xfc}));
  EXPECT_EQ(codes(kE4M3FnUz, {kNan}), Codes{0x80});
  EXPECT_EQ(codes(kE5M2, {kNan}), Codes{0x7e});
}

TEST(SmallFloats, PowersRoundAsTheModeSays) {
  const std::vector<float> x = {0.0F, 0x1p-127F, 0x1.2p-127F, 0x1.8p-127F, 1.0F,
                                1.2F, 1.5F,      3e38F,       kInfinity,   kNan};
  using Codes = std::vector<double>;
  EXPECT_EQ(codes(kE8M0, x), (Codes{0, 0, 1, 1, 127, 128, 128, 254, 254, 255}));
  EXPECT_EQ(codes(kE8M0, x, {string_attr("round_mode", "down")}),
            (Codes{0, 0, 0, 0, 127, 127, 127, 254, 254, 255}));
  EXPECT_EQ(codes(kE8M0, x, {string_attr("round_mode", "nearest"), int_attr("saturate", 0)}),
            (Codes{255, 0, 0, 1, 127, 127, 128, 255, 255, 255}));
}

TEST(SmallFloats, AreNoNumbersToOtherOperators) {
  TestModel model;
  model.opset(25).input("x", DType::kF32, {4});
  model.node({"Cast", {"x"}, {"c"}, {int_attr("to", kE4M3Fn)}});
  model.node({"Reshape", {"c", "shape"}, {"r"}});
  model.initializer("shape", i64_tensor({2}, {2, 2}));
  model.node({"Mul", {"r", "r"}, {"y"}}).output("y");
  EXPECT_THAT(import_error(model.model(), {}, ErrorCode::kUnsupported),
              testing::HasSubstr("arithmetic on floats of 8 bits ('r')"));
}

}  // namespace
}  // namespace weft::onnx
