#include <cmath>
#include <limits>

#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();

TEST(Reduction, AxesAreAnAttributeOrAnInput) {
  OneNode old{"ReduceSum", {ramp({2, 3})}, {ints_attr("axes", {-1}), int_attr("keepdims", 0)}, 11};
  expect_values(old.run_for({2}), {6, 15});
  OneNode now{"ReduceSum", {ramp({2, 3}), i64_tensor({1}, {0})}, {}, 13};
  expect_values(now.run_for({1, 3}), {5, 7, 9});
}

TEST(Reduction, NoAxesMeansAllUnlessTheNodeSaysNone) {
  OneNode node{"ReduceSumSquare", {ramp({2, 2}), i64_tensor({0}, {})}, {}, 18};
  expect_values(node.run_for({1, 1}), {30});
  node.attributes = {int_attr("noop_with_empty_axes", 1)};
  expect_values(node.run_for({2, 2}), {1, 4, 9, 16});
}

TEST(Reduction, CompositeReductions) {
  const HostTensor x = f32_tensor({1, 3}, {3, -4, 12});
  const auto reduced = [&](const std::string& op) {
    return OneNode{op, {x}, {int_attr("keepdims", 0)}, 13}.run_for({});
  };
  expect_values(reduced("ReduceL1"), {19});
  expect_values(reduced("ReduceL2"), {13});
  expect_values(reduced("ReduceMean"), {11.0 / 3});
  expect_values(reduced("ReduceProd"), {-144});
  expect_values(reduced("ReduceLogSum"), {std::log(11)});
  expect_values(reduced("ReduceMax"), {12});
  expect_values(reduced("ReduceMin"), {-4});
}

TEST(Reduction, LogSumExpSurvivesInfinitiesAndLargeNumbers) {
  const auto inf = std::numeric_limits<float>::infinity();
  OneNode node{"ReduceLogSumExp",
               {f32_tensor({4, 2}, {-inf, -inf, 1, inf, 1, 2, 900, 900})},
               {ints_attr("axes", {1}), int_attr("keepdims", 0)},
               13};
  expect_values(node.run_for({4}), {-kInfinity, kInfinity, 2.3132617, 900 + std::log(2)});
}

TEST(Reduction, EmptySetsGiveTheIdentity) {
  const HostTensor empty(DType::kF32, {2, 0});
  const auto reduced = [&](const std::string& op) {
    return OneNode{op, {empty, i64_tensor({1}, {1})}, {int_attr("keepdims", 0)}, 20}.run_for({2});
  };
  expect_values(reduced("ReduceSum"), {0, 0});
  expect_values(reduced("ReduceProd"), {1, 1});
  expect_values(reduced("ReduceMax"), {-kInfinity, -kInfinity});
  expect_values(reduced("ReduceLogSumExp"), {-kInfinity, -kInfinity});
}

TEST(Reduction, BoolsAndIntegersKeepTheirType) {
  OneNode any{"ReduceMax", {tensor_of<int>(DType::kBool, {2, 2}, {0, 1, 0, 0})}, {}, 20};
  any.inputs.emplace_back(i64_tensor({1}, {1}));
  expect_values(any.run_for({2, 1}), {1, 0});
  OneNode mean{"ReduceMean", {tensor_of<int>(DType::kI32, {3}, {1, 2, 5})}, {}, 13};
  EXPECT_EQ(mean.run()[0].dtype(), DType::kI32);
  expect_values(mean.run_for({1}), {2});
}

TEST(Reduction, ArgMaxChoosesTheFirstOrTheLast) {
  OneNode node{"ArgMax", {f32_tensor({2, 3}, {1, 7, 7, 4, 4, 2})}, {int_attr("axis", -1)}, 13};
  expect_values(node.run_for({2, 1}), {1, 0});
  node.attributes.push_back(int_attr("select_last_index", 1));
  node.attributes.push_back(int_attr("keepdims", 0));
  expect_values(node.run_for({2}), {2, 1});
}

TEST(Reduction, RunningSumsGoBothWays) {
  OneNode node{"CumSum", {ramp({4}), tensor_of<int>(DType::kI32, {}, {0})}, {}, 14};
  expect_values(node.run_for({4}), {1, 3, 6, 10});
  node.attributes = {int_attr("exclusive", 1), int_attr("reverse", 1)};
  expect_values(node.run_for({4}), {9, 7, 4, 0});
}

TEST(Reduction, RepeatedAndOutOfRangeAxesAreInvalid) {
  OneNode node{"ReduceSum", {ramp({2, 3})}, {ints_attr("axes", {1, -1})}, 11};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("ReduceSum"));
  node.attributes = {ints_attr("axes", {2})};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("ReduceSum"));
}

TEST(Softmax, IsPrimitives) {
  OneNode node{"Softmax", {ramp({2, 3})}, {int_attr("axis", 1)}, 13};
  EXPECT_EQ(node.text(), R"((x0: f32[2,3]) {
  v1 = reduce x0, axes={1}, combiner=max : f32[2]
  v2 = reshape v1 : f32[2,1]
  v3 = broadcast v2, dims={0,1} : f32[2,3]
  v4 = sub x0, v3 : f32[2,3]
  v5 = exp v4 : f32[2,3]
  v6 = reduce v5, axes={1}, combiner=sum : f32[2]
  v7 = reshape v6 : f32[2,1]
  v8 = broadcast v7, dims={0,1} : f32[2,3]
  y0 = div v5, v8 : f32[2,3]
} -> (y0))");
}

TEST(Softmax, NormalisesAllTrailingAxesUntilOpset12) {
  OneNode node{"Softmax", {f32_tensor({1, 2, 2}, {0, 1, 2, 3})}, {}, 12};
  const double sum = 1 + std::exp(1) + std::exp(2) + std::exp(3);
  expect_values(node.run_for({1, 2, 2}),
                {1 / sum, std::exp(1) / sum, std::exp(2) / sum, std::exp(3) / sum});
  node.opset = 13;
  const double half = 1 / (1 + std::exp(1));
  expect_values(node.run_for({1, 2, 2}), {half, 1 - half, half, 1 - half});
}

TEST(Softmax, LogSoftmaxDoesNotOverflow) {
  OneNode node{"LogSoftmax", {f32_tensor({1, 2}, {1000, 1001})}, {}, 13};
  expect_values(node.run_for({1, 2}), {-1.3132617, -0.3132617});
}

TEST(Softmax, HardmaxMarksTheFirstLargest) {
  OneNode node{"Hardmax", {f32_tensor({2, 3}, {1, 5, 5, 7, 0, 2})}, {}, 13};
  expect_values(node.run_for({2, 3}), {0, 1, 0, 1, 0, 0});
  node.opset = 11;
  node.attributes = {int_attr("axis", 0)};
  expect_values(node.run_for({2, 3}), {0, 0, 0, 1, 0, 0});
}

}  // namespace
}  // namespace weft::onnx
