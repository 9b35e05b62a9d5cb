#include <cmath>
#include <complex>
#include <numbers>

#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

TEST(Window, IsAConstantOfItsSize) {
  OneNode node{"HannWindow", {i64_tensor({}, {4})}, {}, 17};
  expect_values(node.run_for({4}), {0, 0.5, 1, 0.5});
  node.attributes = {int_attr("periodic", 0), int_attr("output_datatype", 11)};
  EXPECT_EQ(node.run()[0].dtype(), DType::kF64);
  expect_values(node.run_for({4}), {0, 0.75, 0.75, 0});
  node.op_type = "BlackmanWindow";
  node.attributes = {};
  expect_values(node.run_for({4}), {0, 0.34, 1, 0.34});
  node.op_type = "HammingWindow";
  expect_values(node.run_for({4}), {4.0 / 46, 25.0 / 46, 1, 25.0 / 46});
}

TEST(Fourier, ForwardInverseAndOneSided) {
  const HostTensor x = f32_tensor({1, 4, 2}, {1, 0.5f, 2, -1, 3, 0, -1, 2});
  OneNode node{"DFT", {x}, {int_attr("axis", 1)}, 17};
  expect_values(node.run_for({1, 4, 2}), {5, 1.5, -5, -2.5, 3, -0.5, 1, 3.5});
  node.attributes.push_back(int_attr("inverse", 1));
  expect_values(node.run_for({1, 4, 2}), {1.25, 0.375, 0.25, 0.875, 0.75, -0.125, -1.25, -0.625});
  OneNode real{"DFT", {ramp({1, 4, 1})}, {int_attr("onesided", 1)}, 20};
  expect_values(real.run_for({1, 3, 2}), {10, 0, -2, 2, -2, 0});
  OneNode back{"DFT",
               {f32_tensor({1, 3, 2}, {10, 0, -2, 2, -2, 0})},
               {int_attr("onesided", 1), int_attr("inverse", 1)},
               20};
  expect_values(back.run_for({1, 4, 1}), {1, 2, 3, 4});
}

TEST(Fourier, LongTransformsAreSplit) {
  constexpr int64_t kPoints = 90, kBins = 46;  // 9 x 10
  std::vector<float> signal;
  std::vector<double> spectrum;
  for (int64_t j = 0; j < kPoints; ++j) {
    signal.push_back(std::sin(static_cast<float>(j * j)) / 10);
  }
  for (int64_t k = 0; k < kBins; ++k) {
    std::complex<double> sum;
    for (int64_t j = 0; j < kPoints; ++j) {
      const double turn = -2 * std::numbers::pi * static_cast<double>(j * k) / kPoints;
      sum += static_cast<double>(signal[static_cast<size_t>(j)]) * std::polar(1.0, turn);
    }
    spectrum.insert(spectrum.end(), {sum.real(), sum.imag()});
  }
  OneNode node{"DFT", {f32_tensor({1, kPoints, 1}, signal)}, {int_attr("onesided", 1)}, 20};
  expect_values(node.run_for({1, kBins, 2}), spectrum, 1e-5);
}

TEST(Fourier, PadsToTheWantedLength) {
  OneNode node{"DFT", {ramp({1, 1, 1}), i64_tensor({}, {2})}, {int_attr("axis", 1)}, 17};
  expect_values(node.run_for({1, 2, 2}), {1, 0, 1, 0});
}

TEST(Stft, IsAStridedConvolution) {
  OneNode node{
      "STFT", {ramp({1, 6, 1}), i64_tensor({}, {2}), f32_tensor({4}, {0.5f, 1, 1, 0.5f})}, {}, 17};
  node.constants = {1, 2};
  EXPECT_THAT(node.text(), testing::HasSubstr("convolution"));
  expect_values(node.run_for({1, 2, 3, 2}), {7.5, 0, -2.5, 0, -0.5, 0, 13.5, 0, -3.5, -1, -0.5, 0},
                1e-6);
}

TEST(MelWeightMatrix, HasATrianglePerBand) {
  OneNode node{"MelWeightMatrix",
               {i64_tensor({}, {2}), i64_tensor({}, {8}), i64_tensor({}, {8000}),
                f32_tensor({}, {100}), f32_tensor({}, {3500})},
               {},
               17};
  expect_values(node.run_for({5, 2}), {1, 0, 0, 1, 0, 0, 0, 0, 0, 0});
}

}  // namespace
}  // namespace weft::onnx
