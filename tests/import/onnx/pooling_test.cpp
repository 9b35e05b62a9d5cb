#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

TEST(MaxPool, IndicesCountInTheStorageOrder) {
  OneNode node{"MaxPool",
               {f32_tensor({1, 1, 3, 4}, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8})},
               {ints_attr("kernel_shape", {2, 2}), ints_attr("strides", {1, 2}),
                ints_attr("pads", {0, 1, 1, 0}), int_attr("storage_order", 1)},
               12,
               {true, true}};
  expect_values(node.run_for({1, 1, 3, 2}), {5, 9, 5, 9, 5, 5});
  expect_values(node.run_for({1, 1, 3, 2}, 1), {1, 4, 1, 4, 2, 8});
}

TEST(MaxPool, PaddingNeverWins) {
  OneNode node{"MaxPool",
               {f32_tensor({1, 1, 2}, {-3, -2})},
               {ints_attr("kernel_shape", {2}), ints_attr("pads", {1, 1})},
               12};
  expect_values(node.run_for({1, 1, 3}), {-3, -2, -2});
  node.inputs = {tensor_of<int>(DType::kI8, {1, 1, 2}, {-100, -90})};
  expect_values(node.run_for({1, 1, 3}), {-100, -90, -90});
}

TEST(AveragePool, CountsWhatTheNodeSays) {
  OneNode node{"AveragePool",
               {ramp({1, 1, 6})},
               {ints_attr("kernel_shape", {3}), ints_attr("strides", {2}),
                ints_attr("pads", {1, 1}), int_attr("ceil_mode", 1)},
               19};
  expect_values(node.run_for({1, 1, 4}), {1.5, 3, 5, 6});
  node.attributes.push_back(int_attr("count_include_pad", 1));
  expect_values(node.run_for({1, 1, 4}), {1, 3, 5, 3});
}

TEST(AveragePool, NoLastWindowStartsInThePadding) {
  OneNode node{"AveragePool",
               {ramp({1, 1, 3})},
               {ints_attr("kernel_shape", {1}), ints_attr("strides", {2}),
                ints_attr("pads", {0, 1}), int_attr("ceil_mode", 1)},
               19};
  expect_values(node.run_for({1, 1, 2}), {1, 3});
}

TEST(LpPool, AddsPowers) {
  OneNode node{"LpPool", {f32_tensor({1, 1, 3}, {3, -4, 1})}, {ints_attr("kernel_shape", {2})}, 18};
  expect_values(node.run_for({1, 1, 2}), {5, std::sqrt(17)});
  node.attributes.push_back(int_attr("p", 1));
  expect_values(node.run_for({1, 1, 2}), {7, 5});
}

TEST(GlobalPooling, ReducesAllSpatialAxes) {
  OneNode node{"GlobalAveragePool", {ramp({1, 2, 2, 2})}, {}, 13};
  expect_values(node.run_for({1, 2, 1, 1}), {2.5, 6.5});
  node.op_type = "GlobalMaxPool";
  expect_values(node.run_for({1, 2, 1, 1}), {4, 8});
  node.op_type = "GlobalLpPool";
  expect_values(node.run_for({1, 2, 1, 1}), {std::sqrt(30), std::sqrt(174)});
}

TEST(MaxUnpool, PutsValuesWhereTheyWere) {
  OneNode node{"MaxUnpool",
               {ramp({1, 1, 2}), i64_tensor({1, 1, 2}, {1, 2})},
               {ints_attr("kernel_shape", {2}), ints_attr("strides", {2})},
               11};
  expect_values(node.run_for({1, 1, 4}), {0, 1, 2, 0});
}

TEST(Roi, AlignsAndPools) {
  OneNode node{
      "RoiAlign",
      {ramp({1, 1, 3, 4}), f32_tensor({2, 4}, {0, 0, 2, 1, 1, 1, 3, 2.5f}),
       i64_tensor({2}, {0, 0})},
      {int_attr("output_height", 1), int_attr("output_width", 2), int_attr("sampling_ratio", 2)},
      16};
  expect_values(node.run_for({2, 1, 1, 2}), {1.625, 2.5, 7, 8});
  node.attributes.pop_back();
  node.attributes.push_back(string_attr("mode", "max"));
  expect_values(node.run_for({2, 1, 1, 2}), {1, 2, 6.25, 6.875});
  EXPECT_THAT(node.refusal(), testing::HasSubstr("sampling_ratio"));
}

}  // namespace
}  // namespace weft::onnx
