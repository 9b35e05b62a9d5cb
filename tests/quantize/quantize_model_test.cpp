#include "quantize/quantize_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quantize/model_text.h"
#include "quantize/quantize_weights.h"
#include "tests/import/onnx/importing.h"

namespace weft::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HostTensor waves(Shape shape) {
  HostTensor out(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_double(i, static_cast<double>(i * 37 % 101) / 50 - 1);
  return out;
}

Result<QuantizedModel> quantized(const std::string& model, const QuantizeOptions& options = {}) {
  auto owner = std::make_shared<const std::string>(model);
  return quantize_model({owner, bytes_of(*owner)}, "", options);
}

/// x [2,40] times w, plus c; then a convolution of the same numbers.
std::string two_layers(int64_t opset = 17) {
  TestModel model;
  model.opset(opset).input("x", DType::kF32, {2, 40});
  model.initializer("w", waves({40, 6})).initializer("c", waves({6}));
  model.initializer("k", waves({3, 1, 3})).initializer("shape", i64_tensor({3}, {2, 1, 6}));
  model.node({"Gemm", {"x", "w", "c"}, {"p"}, {}, "product"});
  model.node({"Reshape", {"p", "shape"}, {"r"}});
  model.node({"Conv", {"r", "k"}, {"y"}, {}, "convolution"}).output("p").output("y");
  return model.model();
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST(QuantizeWeights, GivesEachChannelAScale) {
  const HostTensor w = f32_tensor({2, 3}, {127, 0.5F, 0, -64, -0.25F, 0});
  const QuantizedWeights q = quantize_per_channel(w, 1);
  EXPECT_THAT(values_of(q.values), ElementsAre(127, 127, 0, -64, -64, 0));
  EXPECT_THAT(values_of(q.scales), ElementsAre(1, testing::DoubleNear(0.5 / 127, 1e-8), 1));
  EXPECT_LT(q.error, 0.001);
}

TEST(QuantizeWeights, PacksBlocksOfFourBits) {
  HostTensor w(DType::kF32, {33, 1});
  for (int64_t i = 0; i < 33; ++i) w.set_double(i, static_cast<double>(i % 16 - 8));
  const QuantizedWeights q = quantize_in_blocks(w, false);
  EXPECT_EQ(q.values.shape(), (Shape{1, 2, 16}));
  EXPECT_THAT(values_of(q.scales), ElementsAre(1, 1));
  EXPECT_EQ(q.values.at_int(0), 0x10);
  EXPECT_EQ(q.values.at_int(7), 0xfe);
  EXPECT_EQ(q.values.at_int(16), 0x80);  // -8, and nothing behind it: 0
  EXPECT_EQ(q.error, 0);
}

TEST(QuantizeModel, KeepsWhatLayersMakeNearby) {
  const std::map<std::string, HostTensor> inputs = {{"x", waves({2, 40})}};
  const std::vector<HostTensor> exact = run_model(two_layers(), inputs);
  for (const int64_t opset : {11, 17}) {
    for (const int bits : {8, 4}) {
      QuantizeOptions options;
      options.bits = bits;
      const auto made = quantized(two_layers(opset), options);
      ASSERT_TRUE(made.ok()) << made.error().message;
      ASSERT_EQ(made->layers.size(), 2);
      EXPECT_EQ(made->layers[0].node, "product");
      EXPECT_EQ(made->layers[0].bits, bits);
      EXPECT_EQ(made->layers[1].bits, 8);
      EXPECT_GT(made->layers[0].weight_error, 0);
      EXPECT_LT(made->layers[0].weight_error, bits == 8 ? 0.01 : 0.1);
      EXPECT_LT(made->layers[0].bytes_after, made->layers[0].bytes_before);
      const std::vector<HostTensor> outputs = run_model(made->bytes, inputs);
      ASSERT_EQ(outputs.size(), 2);
      EXPECT_LT(distance(values_of(outputs[0]), values_of(exact[0])), bits == 8 ? 0.05 : 0.6);
      EXPECT_GT(distance(values_of(outputs[0]), values_of(exact[0])), 0);
    }
  }
}

TEST(QuantizeModel, QuantisesValuesOfKnownRanges) {
  const std::map<std::string, HostTensor> inputs = {{"x", waves({2, 40})}};
  const std::vector<HostTensor> exact = run_model(two_layers(), inputs);
  QuantizeOptions options;
  options.ranges = {{"x", {-1, 1}}, {"p", {-20, 20}}, {"r", {-20, 20}}, {"y", {-40, 40}}};
  const auto made = quantized(two_layers(), options);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::vector<HostTensor> outputs = run_model(made->bytes, inputs);
  ASSERT_EQ(outputs.size(), 2);
  EXPECT_LT(distance(values_of(outputs[0]), values_of(exact[0])), 0.3);
  for (const double v : values_of(outputs[0]))  // of p's steps
    EXPECT_NEAR(v / (40.0 / 255), std::round(v / (40.0 / 255)), 1e-4);
}

TEST(QuantizeModel, QuantisesConstantNodes) {
  TestModel model;
  model.input("x", DType::kF32, {2, 40});
  model.node({"Constant", {}, {"w"}, {tensor_attr("value", waves({40, 6}))}});
  model.node({"MatMul", {"x", "w"}, {"y"}}).output("y");
  const std::map<std::string, HostTensor> inputs = {{"x", waves({2, 40})}};
  const std::vector<double> exact = run_for_values(model.model(), inputs);
  const auto made = quantized(model.model());
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_LT(distance(run_for_values(made->bytes, inputs), exact), 0.05);
}

TEST(QuantizeModel, LeavesExcludedNodesAndOtherWeights) {
  QuantizeOptions options;
  options.exclude = {"product"};
  auto made = quantized(two_layers(), options);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->layers.size(), 1);
  EXPECT_EQ(made->layers[0].op_type, "Conv");
  options.exclude = {"products"};
  made = quantized(two_layers(), options);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("'products'"));
  TestModel shared;
  shared.input("x", DType::kF32, {2, 4}).initializer("w", waves({4, 4}));
  shared.node({"MatMul", {"x", "w"}, {"p"}}).node({"Exp", {"w"}, {"e"}});
  made = quantized(shared.output("p").output("e").model());
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("no MatMul, Gemm or Conv"));
}

TEST(QuantizeModel, RefusesWhatIsNoModel) {
  const std::string model = two_layers();
  for (size_t length = 0; length < model.size(); length += 7) {
    const auto made = quantized(model.substr(0, length));
    if (!made.ok()) EXPECT_EQ(made.error().code, ErrorCode::kInvalidInput);
  }
}

}  // namespace
}  // namespace weft::onnx
