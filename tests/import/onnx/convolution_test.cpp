#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

TEST(Conv, PadsToTheSameExtentOnTheLowerSide) {
  OneNode node{
      "Conv",
      {ramp({1, 2, 3, 3}), ramp({2, 1, 2, 2}, -1), f32_tensor({2}, {0.5f, 1.5f})},
      {int_attr("group", 2), string_attr("auto_pad", "SAME_LOWER"), ints_attr("strides", {2, 2})},
      11};
  expect_values(node.run_for({1, 2, 2, 2}), {2.5, 8.5, 14.5, 21.5, 61.5, 128.5, 149.5, 296.5});
}

TEST(Conv, WindowLargerThanThePaddedInputIsInvalid) {
  OneNode node{"Conv", {ramp({1, 1, 3}), ramp({1, 1, 4})}, {}, 11};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("window of 4"));
  node.attributes = {ints_attr("pads", {-1, 5})};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("pads"));
  node.attributes = {ints_attr("dilations", {int64_t{1} << 62})};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("dilations"));
  node.attributes = {int_attr("group", 0)};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("group"));
}

TEST(ConvTranspose, IsAConvolutionOfADilatedInput) {
  OneNode node{
      "ConvTranspose", {ramp({1, 1, 3}), ramp({1, 1, 2})}, {ints_attr("strides", {2})}, 11};
  node.constants = {1};
  EXPECT_THAT(node.text(), testing::AllOf(testing::HasSubstr("constant {2, 1}"),
                                          testing::HasSubstr("lhs_dilations={2}")));
  expect_values(node.run_for({1, 1, 6}), {1, 2, 2, 4, 3, 6});
}

TEST(ConvTranspose, GroupsPadsAndOutputPadding) {
  OneNode node{"ConvTranspose",
               {ramp({1, 2, 3}), ramp({2, 2, 3}, -2), ramp({4})},
               {ints_attr("strides", {2}), ints_attr("pads", {1, 0}),
                ints_attr("output_padding", {1}), int_attr("group", 2)},
               11};
  expect_values(node.run_for({1, 4, 7}), {0,  -3, -1, -5, -2, 1,  1, 4,  7,  6,  11, 8,  11, 2,
                                          23, 47, 28, 57, 33, 39, 3, 36, 75, 44, 91, 52, 58, 4});
}

TEST(ConvTranspose, OutputShapeDecidesThePadding) {
  OneNode node{"ConvTranspose",
               {ramp({1, 1, 2}), ramp({1, 1, 3})},
               {ints_attr("strides", {2}), ints_attr("output_shape", {4})},
               11};
  // The full output 1 2 5 4 6 loses its first element; an even split puts the rest at the end.
  expect_values(node.run_for({1, 1, 4}), {2, 5, 4, 6});
  node.attributes.push_back(string_attr("auto_pad", "SAME_UPPER"));
  expect_values(node.run_for({1, 1, 4}), {1, 2, 5, 4});
}

TEST(CausalConv, CarriesTheLastPositions) {
  OneNode node{"CausalConvWithState",
               {ramp({1, 1, 3}), ramp({1, 1, 2}), std::nullopt, f32_tensor({1, 1, 1}, {5})},
               {},
               27,
               {true, true}};
  expect_values(node.run_for({1, 1, 3}), {7, 5, 8});
  expect_values(node.run_for({1, 1, 1}, 1), {3});
}

TEST(DeformConv, WholeOffsetsMoveTheTaps) {
  HostTensor offset(DType::kF32, {1, 2, 2, 2});
  const float along[] = {0, 1, 0, 0, 0, 0, 1, 0.5f};  // down, then right
  for (int64_t i = 0; i < 8; ++i) offset.mutable_data<float>()[i] = along[i];
  OneNode node{"DeformConv", {ramp({1, 1, 2, 2}), f32_tensor({1, 1, 1, 1}, {2}), offset}, {}, 19};
  // (0,0), (1,1), (1,1), then half of (1,1): the other half lies outside.
  expect_values(node.run_for({1, 1, 2, 2}), {2, 8, 8, 4});
}

TEST(Col2Im, SumsOverlappingBlocks) {
  OneNode node{"Col2Im", {ramp({1, 2, 3}), i64_tensor({1}, {4}), i64_tensor({1}, {2})}, {}, 18};
  expect_values(node.run_for({1, 1, 4}), {1, 6, 8, 6});
}

}  // namespace
}  // namespace weft::onnx
