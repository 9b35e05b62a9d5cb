#include <cmath>
#include <limits>

#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> apply(const std::string& op, std::vector<std::string> attributes = {},
                          const std::vector<float>& x = {-2, -0.5f, 0.25f, 3}) {
  Shape shape = {static_cast<int64_t>(x.size())};
  return OneNode{op, {f32_tensor(shape, x)}, std::move(attributes), 24}.run_for(shape);
}

TEST(Activation, PiecewiseFormsFollowTheirDefinition) {
  expect_values(apply("LeakyRelu", {float_attr("alpha", 0.25f)}), {-0.5, -0.125, 0.25, 3});
  expect_values(apply("ThresholdedRelu"), {0, 0, 0, 3});
  expect_values(apply("HardSigmoid"), {0.1, 0.4, 0.55, 1});
  expect_values(apply("HardSwish"), {-2.0 / 6, -0.5 * 2.5 / 6, 0.25 * 3.25 / 6, 3});
  expect_values(apply("Shrink", {float_attr("lambd", 0.4f), float_attr("bias", 0.1f)}),
                {-1.9, -0.4, 0, 2.9});
  expect_values(apply("Softsign"), {-2.0 / 3, -1.0 / 3, 0.2, 0.75});
}

TEST(Activation, ExponentialFormsFollowTheirDefinition) {
  expect_values(apply("Elu", {float_attr("alpha", 2)}),
                {2 * std::expm1(-2), 2 * std::expm1(-0.5), 0.25, 3});
  expect_values(apply("Celu", {float_attr("alpha", 2)}),
                {2 * std::expm1(-1), 2 * std::expm1(-0.25), 0.25, 3});
  expect_values(apply("Selu"), {1.0507009873554805 * 1.6732632423543772 * std::expm1(-2),
                                1.0507009873554805 * 1.6732632423543772 * std::expm1(-0.5),
                                1.0507009873554805 * 0.25, 1.0507009873554805 * 3});
  expect_values(apply("Gelu", {}, {-1, 2}),
                {-0.5 * (1 + std::erf(-std::sqrt(0.5))), 1 + std::erf(std::sqrt(2))});
  expect_values(apply("Gelu", {string_attr("approximate", "tanh")}, {2}),
                {1 + std::tanh(std::sqrt(2 / M_PI) * (2 + 0.044715 * 8))});
  expect_values(apply("Swish", {float_attr("alpha", 2)}, {-1, 2}),
                {-1 / (1 + std::exp(2)), 2 / (1 + std::exp(-4))});
  expect_values(apply("Mish", {}, {0.5}), {0.5 * std::tanh(std::log1p(std::exp(0.5)))});
}

TEST(Activation, SoftplusNeitherOverflowsNorLosesSmallResults) {
  expect_values(apply("Softplus", {}, {-60, 1, 200}),
                {std::exp(-60.0), std::log1p(std::exp(1.0)), 200}, 1e-6);
  EXPECT_GT(apply("Softplus", {}, {-60})[0], 0);
}

TEST(Activation, NansAndInfinitiesTakeTheSideOfTheDefinition) {
  const std::vector<float> x = {std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity()};
  expect_values(apply("Elu", {}, x), {kNan, kInfinity, -1});
  expect_values(apply("LeakyRelu", {}, x), {kNan, kInfinity, -kInfinity});
  expect_values(apply("ThresholdedRelu", {}, x), {0, kInfinity, 0});
  expect_values(apply("Softplus", {}, x), {kNan, kInfinity, 0});
  expect_values(apply("HardSigmoid", {}, x), {kNan, 1, 0});
}

TEST(Activation, SlopeOfPReluBroadcastsToTheInput) {
  OneNode node{"PRelu", {f32_tensor({2, 2}, {-1, 2, -3, -4}), f32_tensor({2, 1}, {0.5f, 2})}, {}};
  expect_values(node.run_for({2, 2}), {-0.5, 2, -6, -8});
  node.inputs[1] = ramp({3, 2, 2});
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("PRelu"));
}

TEST(Activation, HalfPrecisionRoundsOnce) {
  OneNode node{"Gelu", {tensor_of<double>(DType::kF16, {1}, {0.7001953125})}, {}};
  std::vector<HostTensor> y = node.run();
  double exact = 0.5 * 0.7001953125 * (1 + std::erf(0.7001953125 * std::sqrt(0.5)));
  ASSERT_EQ(y[0].dtype(), DType::kF16);
  EXPECT_EQ(y[0].at_double(0), half_to_float(float_to_half(static_cast<float>(exact))));
}

TEST(Activation, UnknownFormOfGeluIsInvalid) {
  OneNode node{"Gelu", {ramp({2})}, {string_attr("approximate", "sine")}};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("\"sine\""));
}

}  // namespace
}  // namespace weft::onnx
