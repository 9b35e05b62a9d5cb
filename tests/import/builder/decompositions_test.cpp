// Composites of primitives, interpreted on constants.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "import/builder/activation.h"
#include "import/builder/determinant.h"
#include "import/builder/heads.h"
#include "import/builder/normalization.h"
#include "import/builder/numpy_matmul.h"
#include "import/builder/power.h"
#include "import/builder/quantize.h"
#include "import/builder/softmax.h"
#include "import/builder/taps.h"
#include "interp/interpreter.h"

namespace weft::onnx {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

ValueId numbers(GraphBuilder& b, const std::vector<double>& values, const Shape& shape) {
  return b.constant_floats(DType::kF32, values, shape);
}

std::vector<double> values_of(GraphBuilder& b, ValueId v) {
  Graph graph = b.graph();
  graph.add_output(v, "y");
  const Result<std::vector<HostTensor>> results = interpret(graph, {});
  if (!results.ok()) return {};
  std::vector<double> values;
  for (int64_t i = 0; i < (*results)[0].size(); ++i) values.push_back((*results)[0].at_double(i));
  return values;
}

MATCHER(IsNear, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-5; }

void expect_values(GraphBuilder& b, ValueId v, const std::vector<double>& expected) {
  EXPECT_THAT(values_of(b, v), Pointwise(IsNear(), expected));
}

/// The cube is products unless the exponent has axes of its own; other powers are powers.
TEST(Decompositions, CubesAreProducts) {
  GraphBuilder b;
  const ValueId x = b.input({DType::kF32, {2, 3}});
  const auto op_of = [&](ValueId v) { return std::get<ElementwiseAttrs>(b.maker(v)->attrs).op; };
  const auto cube = [&](const Shape& shape) {
    const ValueId three = b.scalar(DType::kF32, 3);
    return power(b, x, shape.empty() ? three : b.broadcast_to(three, shape));
  };
  EXPECT_EQ(op_of(cube({})), ScalarOp::kMul);
  EXPECT_EQ(op_of(cube({2, 3})), ScalarOp::kMul);
  EXPECT_EQ(op_of(cube({1, 1, 3})), ScalarOp::kPow);
  EXPECT_EQ(op_of(power(b, x, b.scalar(DType::kF32, 2.5))), ScalarOp::kPow);
  GraphBuilder c;
  expect_values(c, power(c, numbers(c, {-2, 0.5}, {2}), c.scalar(DType::kF32, 3)), {-8, 0.125});
}

TEST(Decompositions, SoftmaxAndItsLogarithm) {
  GraphBuilder b;
  const ValueId x = numbers(b, {0, std::log(3), 100, 100}, {2, 2});
  expect_values(b, softmax(b, x, {1}), {0.25, 0.75, 0.5, 0.5});
  expect_values(b, log_softmax(b, x, {1}),
                {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)});
}

TEST(Decompositions, Activations) {
  GraphBuilder b;
  const ValueId x = numbers(b, {-2, 0, 1}, {3});
  expect_values(b, leaky_relu(b, x, 0.1), {-0.2, 0, 1});
  expect_values(b, elu(b, x, 2), {2 * std::expm1(-2), 0, 1});
  expect_values(b, softplus(b, x),
                {std::log1p(std::exp(-2)), std::log(2), std::log1p(std::exp(1))});
  expect_values(b, hard_sigmoid(b, x, 0.25, 0.5), {0, 0.5, 0.75});
  expect_values(b, gelu(b, x), {-std::erfc(std::sqrt(2)), 0, 0.5 * (1 + std::erf(std::sqrt(0.5)))});
  EXPECT_THAT(values_of(b, tanh_gelu(b, x))[2], DoubleNear(0.84119, 1e-5));
}

TEST(Decompositions, MomentsKeepTheirAxes) {
  GraphBuilder b;
  const Moments moments(b, numbers(b, {1, 3, 5, 5}, {2, 2}), {1});
  EXPECT_EQ(b.shape(moments.mean), (Shape{2, 1}));
  expect_values(b, moments.mean, {2, 5});
  expect_values(b, moments.centred, {-1, 1, 0, 0});
  expect_values(b, moments.variance, {1, 0});
}

TEST(Decompositions, NumpyMatmulDropsTheAxesOfVectors) {
  GraphBuilder b;
  const ValueId row = numbers(b, {1, 2}, {2}), matrix = numbers(b, {1, 2, 3, 4}, {2, 2});
  expect_values(b, numpy_matmul(b, row, matrix, DType::kF32), {7, 10});
  EXPECT_EQ(b.shape(numpy_matmul(b, row, row, DType::kF32)), Shape{});
}

TEST(Decompositions, HeadsRotateByTheirPositions) {
  GraphBuilder b;
  const ValueId x = numbers(b, {1, 2, 3, 4}, {1, 1, 1, 4});
  const ValueId zero = numbers(b, {0, 0}, {1, 1, 2}), one = numbers(b, {1, 1}, {1, 1, 2});
  expect_values(b, rotate_heads(b, x, {zero, one}), {-3, -4, 1, 2});
  expect_values(b, rotate_heads(b, x, {zero, one, kNoValue, 4, true}), {-2, 1, -4, 3});
}

TEST(Decompositions, AttentionSeesAllowedKeysOnly) {
  GraphBuilder b;
  Heads heads;
  heads.query = numbers(b, {0, 0, 0, 0}, {1, 2, 2, 1});  // two heads share one of keys
  heads.key = numbers(b, {1, 1}, {1, 1, 2, 1});
  heads.value = numbers(b, {4, 8}, {1, 1, 2, 1});
  heads.allowed = causal_mask(b, 2, 2, 0);
  const ValueId y = attend(b, heads);
  EXPECT_EQ(b.shape(y), (Shape{1, 2, 2}));
  expect_values(b, y, {4, 4, 6, 6});
}

TEST(Decompositions, QuantizationCoversZero) {
  GraphBuilder b;
  const DynamicQuantization q = quantize_dynamically(b, numbers(b, {1, 255}, {2}));
  EXPECT_THAT(values_of(b, q.values), ElementsAre(1, 255));
  expect_values(b, q.scale, {1});
  expect_values(b, q.zero_point, {0});
  expect_values(b, without_zero_point(b, q.values, b.scalar_int(DType::kU8, 3)), {-2, 252});
}

TEST(Decompositions, DeterminantsInClosedFormAndByElimination) {
  GraphBuilder b;
  expect_values(b, determinant(b, numbers(b, {1, 2, 3, 4}, {2, 2})), {-2});
  const ValueId exchanged = numbers(b, {0, 2, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 5}, {4, 4});
  expect_values(b, determinant(b, exchanged), {-30});
}

TEST(Decompositions, TapsMoveElementsWhereTheyCan) {
  GraphBuilder b;
  const ValueId x = b.input({DType::kF32, {4}}, "x");
  EXPECT_EQ(b.maker(apply_taps(b, x, 0, {{{0, 2}}, {}, {}}))->op, GraphOp::kSlice);
  EXPECT_EQ(b.maker(apply_taps(b, x, 0, {{{2, 0}}, {}, {}}))->op, GraphOp::kGather);
}

TEST(Decompositions, TapsWeighElements) {
  GraphBuilder b;
  const ValueId known = numbers(b, {1, 2, 4}, {3});
  expect_values(b, apply_taps(b, known, 0, {{{0, 1}, {1, 2}}, {{0.5, 0.25}, {0.5, 0.75}}, {}}),
                {1.5, 3.5});
}

}  // namespace
}  // namespace weft::onnx
