#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

OneNode resize(const HostTensor& x, const std::vector<int64_t>& sizes,
               std::vector<std::string> attributes) {
  HostTensor wanted = i64_tensor({static_cast<int64_t>(sizes.size())}, sizes);
  OneNode node{"Resize", {x, std::nullopt, std::nullopt, wanted}, std::move(attributes), 19};
  node.constants = {3};
  return node;
}

TEST(Resize, RepeatingElementsIsAMovement) {
  OneNode node = resize(ramp({1, 1, 2, 2}), {1, 1, 4, 2},
                        {string_attr("mode", "nearest"), string_attr("nearest_mode", "floor"),
                         string_attr("coordinate_transformation_mode", "asymmetric")});
  EXPECT_EQ(node.text(), R"((x0: f32[1,1,2,2]) {
  v1 = reshape x0 : f32[1,1,2,1,2]
  v2 = broadcast v1, dims={0,1,2,3,4} : f32[1,1,2,2,2]
  y0 = reshape v2 : f32[1,1,4,2]
} -> (y0))");
  expect_values(node.run_for({1, 1, 4, 2}), {1, 2, 1, 2, 3, 4, 3, 4});
}

TEST(Resize, RegularSamplesAreASlice) {
  OneNode node = resize(ramp({1, 1, 1, 6}), {1, 1, 1, 3},
                        {string_attr("mode", "nearest"), string_attr("nearest_mode", "floor"),
                         string_attr("coordinate_transformation_mode", "asymmetric")});
  EXPECT_THAT(node.text(), testing::HasSubstr("step={1,1,1,2}"));
  expect_values(node.run_for({1, 1, 1, 3}), {1, 3, 5});
}

TEST(Resize, InterpolatesLinearlyAndCubically) {
  OneNode node = resize(ramp({1, 1, 1, 4}), {1, 1, 1, 8}, {string_attr("mode", "linear")});
  expect_values(node.run_for({1, 1, 1, 8}), {1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4});
  node = resize(ramp({1, 1, 1, 4}), {1, 1, 1, 3},
                {string_attr("mode", "cubic"),
                 string_attr("coordinate_transformation_mode", "align_corners")});
  expect_values(node.run_for({1, 1, 1, 3}), {1, 2.5, 4});
}

TEST(Resize, AntialiasingWidensTheKernel) {
  OneNode node = resize(f32_tensor({1, 1, 1, 6}, {1, 5, 2, 8, 3, 9}), {1, 1, 1, 3},
                        {string_attr("mode", "linear"), int_attr("antialias", 1)});
  expect_values(node.run_for({1, 1, 1, 3}), {2.625, 4.75, 6.625});
}

TEST(Resize, CropExtrapolates) {
  OneNode node = resize(ramp({4}), {3},
                        {string_attr("mode", "linear"), float_attr("extrapolation_value", -1),
                         string_attr("coordinate_transformation_mode", "tf_crop_and_resize")});
  node.inputs[1] = f32_tensor({2}, {0.5f, 1.5f});
  expect_values(node.run_for({3}), {2.5, 4, -1});
}

TEST(Resize, KeepsTheAspectRatioOnDemand) {
  OneNode node =
      resize(ramp({1, 1, 2, 4}), {8, 4},
             {ints_attr("axes", {2, 3}), string_attr("keep_aspect_ratio_policy", "not_larger")});
  expect_values(node.run_for({1, 1, 2, 4}), {1, 2, 3, 4, 5, 6, 7, 8});
}

TEST(Resize, NonsenseIsInvalid) {
  OneNode node = resize(ramp({4}), {3}, {string_attr("mode", "quadratic")});
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("quadratic"));
  node = resize(ramp({4}), {3, 3}, {});
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("sizes"));
}

TEST(Resize, HugeExtentsAreRefusedBeforeTheyAreAllocated) {
  OneNode node = resize(ramp({4}), {int64_t{1} << 30}, {string_attr("mode", "linear")});
  EXPECT_THAT(node.refusal(), testing::HasSubstr("2^24"));
}

TEST(GridSample, PadsAsItsModeSays) {
  OneNode node{"GridSample",
               {ramp({1, 1, 2, 3}), f32_tensor({1, 1, 3, 2}, {-1.4f, 0, -0.5f, 0.25f, 0.9f, 1.2f})},
               {},
               16};
  const auto sample = [&](const std::string& mode, const std::string& padding) {
    node.attributes = {string_attr("mode", mode), string_attr("padding_mode", padding)};
    return node.run_for({1, 1, 1, 3});
  };
  expect_values(sample("bilinear", "zeros"), {0, 3.5, 1.17});
  expect_values(sample("bilinear", "border"), {2.5, 3.5, 6});
  expect_values(sample("bilinear", "reflection"), {2.6, 3.5, 6});
  expect_values(sample("nearest", "zeros"), {0, 4, 0});
  expect_values(sample("nearest", "reflection"), {1, 4, 6});
  expect_values(sample("bicubic", "zeros"), {-0.18035087, 4.3940582, 1.242162});
  expect_values(sample("bicubic", "border"), {2.5, 3.5117188, 6.2526593});
  expect_values(sample("bicubic", "reflection"), {2.5752497, 3.5117188, 6.6431274});
}

TEST(AffineGrid, TransformsPixelCentres) {
  OneNode node{"AffineGrid",
               {f32_tensor({1, 2, 3}, {1, 0.5f, 0.2f, 0, 2, -0.1f}), i64_tensor({4}, {1, 1, 2, 3})},
               {},
               20};
  expect_values(node.run_for({1, 2, 3, 2}), {-0.7166667, -1.1, -0.05, -1.1, 0.61666667, -1.1,
                                             -0.21666668, 0.9, 0.45, 0.9, 1.1166667, 0.9});
}

TEST(CenterCropPad, CutsAndPadsAroundTheMiddle) {
  OneNode node{"CenterCropPad", {ramp({5, 1}), i64_tensor({2}, {2, 2})}, {}, 18};
  expect_values(node.run_for({2, 2}), {2, 0, 3, 0});
}

}  // namespace
}  // namespace weft::onnx
