#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

HostTensor f32_scalar(float value) { return f32_tensor({}, {value}); }
HostTensor u8(Shape shape, const std::vector<int>& values) {
  return tensor_of<int>(DType::kU8, std::move(shape), values);
}
HostTensor i8(Shape shape, const std::vector<int>& values) {
  return tensor_of<int>(DType::kI8, std::move(shape), values);
}

TEST(Quantize, RoundsToEvenAndSaturates) {
  OneNode node{"QuantizeLinear",
               {f32_tensor({6}, {1, 3, -1, 5, 999, -999}), f32_scalar(2), u8({}, {7})},
               {},
               13};
  expect_values(node.run_for({6}), {7, 9, 7, 9, 255, 0});
  node.inputs[2] = i8({}, {-7});
  expect_values(node.run_for({6}), {-7, -5, -7, -5, 127, -128});
}

TEST(Quantize, ScalesPerAxisAndPerBlock) {
  OneNode node{
      "QuantizeLinear", {ramp({2, 3}), f32_tensor({2}, {1, 2})}, {int_attr("axis", 0)}, 13};
  expect_values(node.run_for({2, 3}), {1, 2, 3, 2, 2, 3});
  node.inputs[1] = f32_tensor({2, 2}, {1, 0.5f, 2, 0.1f});
  node.attributes = {int_attr("axis", 1), int_attr("block_size", 2)};
  node.opset = 21;
  expect_values(node.run_for({2, 3}), {1, 2, 6, 2, 2, 60});
}

TEST(Dequantize, IsExactInIntegersBeforeItScales) {
  OneNode node{
      "DequantizeLinear", {u8({3}, {0, 128, 255}), f32_scalar(0.5f), u8({}, {128})}, {}, 13};
  expect_values(node.run_for({3}), {-64, 0, 63.5});
  node.inputs = {tensor_of<int>(DType::kI32, {1}, {1 << 20}), f32_scalar(0.25f)};
  expect_values(node.run_for({1}), {1 << 18});
}

TEST(DynamicQuantize, CoversZeroAndTheRange) {
  OneNode node{"DynamicQuantizeLinear",
               {f32_tensor({6}, {0, 2, -3, -2.5f, 1.34f, 0.5f})},
               {},
               11,
               {true, true, true}};
  expect_values(node.run_for({6}), {153, 255, 0, 26, 221, 179});
  expect_values(node.run_for({}, 1), {0.019607844});
  expect_values(node.run_for({}, 2), {153});
}

TEST(IntegerProducts, SubtractZeroPointsPerRowAndColumn) {
  OneNode node{
      "MatMulInteger",
      {u8({2, 2}, {1, 255, 3, 4}), i8({2, 2}, {-128, 1, 2, 3}), u8({2}, {1, 2}), i8({2}, {0, 1})},
      {},
      10};
  expect_values(node.run_for({2, 2}), {508, 508, -124, 4});
  EXPECT_EQ(node.run()[0].dtype(), DType::kI32);
}

TEST(IntegerProducts, RequantiseOnce) {
  OneNode node{"QLinearMatMul",
               {u8({1, 2}, {10, 20}), f32_scalar(0.5f), u8({}, {0}), u8({2, 1}, {3, 4}),
                f32_scalar(0.5f), u8({}, {1}), f32_scalar(4), u8({}, {100})},
               {},
               21};
  // (10 * 2 + 20 * 3) / 16 = 5
  expect_values(node.run_for({1, 1}), {105});
}

TEST(IntegerConvolution, PaddingIsZeroAfterTheZeroPoint) {
  OneNode node{"ConvInteger",
               {u8({1, 1, 2}, {5, 6}), u8({1, 1, 2}, {1, 2}), u8({}, {4})},
               {ints_attr("pads", {1, 1})},
               10};
  expect_values(node.run_for({1, 1, 3}), {2, 5, 2});
}

TEST(IntegerConvolution, RequantisesPerChannel) {
  OneNode node{
      "QLinearConv",
      {u8({1, 1, 1, 3}, {10, 200, 30}), f32_scalar(0.1f), u8({}, {20}), i8({1, 1, 1, 2}, {3, -7}),
       f32_tensor({1}, {0.05f}), i8({}, {0}), f32_scalar(0.2f), u8({}, {100})},
      {},
      10};
  expect_values(node.run_for({1, 1, 1, 2}), {68, 112});
}

TEST(Quantize, OnlyIntegersOf32BitsOrLess) {
  OneNode node{"QuantizeLinear", {ramp({2}), f32_scalar(1), i64_tensor({}, {3})}, {}, 21};
  EXPECT_THAT(node.refusal(), testing::HasSubstr("i64"));
}

}  // namespace
}  // namespace weft::onnx
