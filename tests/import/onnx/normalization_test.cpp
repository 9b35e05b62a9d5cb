#include <cmath>

#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

TEST(BatchNormalization, FoldsToOneMultiplyAndAdd) {
  OneNode node{"BatchNormalization",
               {ramp({1, 2, 2}), f32_tensor({2}, {2, 6}), f32_tensor({2}, {0.5f, 1}),
                f32_tensor({2}, {1, 3}), f32_tensor({2}, {4, 9})},
               {float_attr("epsilon", 0)},
               15};
  node.constants = {1, 2, 3, 4};
  expect_values(node.run_for({1, 2, 2}), {0.5, 1.5, 1, 3});
  EXPECT_EQ(node.text(), R"((x0: f32[1,2,2]) {
  v1 = constant {1, 2} : f32[1,2,1]
  v2 = broadcast v1, dims={0,1,2} : f32[1,2,2]
  v3 = mul x0, v2 : f32[1,2,2]
  v4 = constant {-0.5, -5} : f32[1,2,1]
  v5 = broadcast v4, dims={0,1,2} : f32[1,2,2]
  y0 = add v3, v5 : f32[1,2,2]
} -> (y0))");
}

TEST(BatchNormalization, TrainingMovesTheRunningStatistics) {
  OneNode node{
      "BatchNormalization",
      {ramp({2, 1, 2}), ramp({1}), ramp({1}, 0), f32_tensor({1}, {10}), f32_tensor({1}, {4})},
      {float_attr("epsilon", 0), float_attr("momentum", 0.5f), int_attr("training_mode", 1)},
      15,
      {true, true, true}};
  const double deviation = std::sqrt(1.25);
  expect_values(node.run_for({2, 1, 2}),
                {-1.5 / deviation, -0.5 / deviation, 0.5 / deviation, 1.5 / deviation});
  expect_values(node.run_for({1}, 1), {6.25});
  expect_values(node.run_for({1}, 2), {2.625});
}

TEST(LayerNormalization, GivesMeanAndInverseDeviation) {
  OneNode node{"LayerNormalization",
               {ramp({2, 3}), f32_tensor({3}, {1, 2, 1}), f32_tensor({3}, {0, 1, 0})},
               {float_attr("epsilon", 0)},
               17,
               {true, true, true}};
  const double inverse = std::sqrt(1.5);
  expect_values(node.run_for({2, 3}), {-inverse, 1, inverse, -inverse, 1, inverse});
  expect_values(node.run_for({2, 1}, 1), {2, 5});
  expect_values(node.run_for({2, 1}, 2), {inverse, inverse});
}

TEST(LayerNormalization, StatisticsOfHalfPrecisionAreFloat32) {
  // The squares overflow float16.
  OneNode node{"LayerNormalization",
               {tensor_of<double>(DType::kF16, {1, 2}, {-1000, 1000}),
                tensor_of<double>(DType::kF16, {2}, {1, 2})},
               {},
               17,
               {true, false, true}};
  std::vector<HostTensor> y = node.run();
  EXPECT_EQ(y[0].dtype(), DType::kF16);
  EXPECT_THAT(values_of(y[0]), testing::ElementsAre(-1, 2));
  EXPECT_EQ(y[1].dtype(), DType::kF32);
}

TEST(RmsNormalization, DividesByTheRootMeanSquare) {
  OneNode node{"RMSNormalization",
               {f32_tensor({1, 2}, {6, 8}), f32_tensor({2}, {1, 10})},
               {float_attr("epsilon", 0)},
               23};
  expect_values(node.run_for({1, 2}), {6 / std::sqrt(50), 80 / std::sqrt(50)});
}

TEST(GroupNormalization, ScalesPerChannelFromOpset21) {
  OneNode node{"GroupNormalization",
               {ramp({1, 4, 2}), ramp({4}, 1, 0.5f), ramp({4}, 0)},
               {int_attr("num_groups", 2)},
               21};
  expect_values(node.run_for({1, 4, 2}), {-1.3416355, -0.44721183, 1.6708177, 3.0124531,
                                          -0.68327093, 1.1055763, 4.1180296, 6.3540888});
  node.opset = 18;
  node.inputs[1] = ramp({2}, 1, 1);
  node.inputs[2] = ramp({2}, 0);
  expect_values(node.run_for({1, 4, 2}), {-1.3416355, -0.44721183, 0.44721183, 1.3416355, -1.683271,
                                          0.1055763, 1.8944237, 3.683271});
}

TEST(InstanceNormalization, NormalisesEachChannelOfEachSample) {
  OneNode node{"InstanceNormalization",
               {f32_tensor({1, 2, 2}, {1, 3, 10, 30}), ramp({2}), ramp({2}, 0)},
               {float_attr("epsilon", 0)},
               13};
  expect_values(node.run_for({1, 2, 2}), {-1, 1, -1, 3});
}

TEST(LpNormalization, LeavesZeroRows) {
  OneNode node{"LpNormalization", {f32_tensor({2, 2}, {3, -4, 0, 0})}, {}, 21};
  expect_values(node.run_for({2, 2}), {0.6, -0.8, 0, 0});
  node.attributes = {int_attr("p", 1)};
  expect_values(node.run_for({2, 2}), {3.0 / 7, -4.0 / 7, 0, 0});
}

TEST(Lrn, SumsNeighbouringChannels) {
  OneNode node{"LRN",
               {ramp({1, 4, 1, 1})},
               {int_attr("size", 3), float_attr("alpha", 0.3f), float_attr("beta", 0.5f)},
               13};
  expect_values(node.run_for({1, 4, 1, 1}), {0.81649655, 1.2909944, 1.519109, 2.1380899});
}

}  // namespace
}  // namespace weft::onnx
