#include "tests/import/onnx/operator_run.h"

// What onnxruntime's optimiser and quantiser write. The expected values are onnxruntime's own.

namespace weft::onnx {
namespace {

TEST(FusedOperators, ConvolutionAddsAndActivates) {
  {
    OneNode node{"FusedConv",
                 {ramp({1, 1, 2, 3}, -2, 1), f32_tensor({2, 1, 1, 2}, {1, -1, 0.5f, 2}),
                  f32_tensor({2}, {0.5f, -1}), ramp({1, 2, 2, 2}, -1, 0.5f)},
                 {ints_attr("kernel_shape", {1, 2}), string_attr("activation", "Relu")},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 2, 2, 2}), {0, 0, 0, 0, 0, 0, 5.5, 8.5});
  }
  {
    OneNode node{"FusedConv",
                 {ramp({1, 1, 2, 3}, -2, 1), f32_tensor({2, 1, 1, 2}, {1, -1, 0.5f, 2})},
                 {ints_attr("kernel_shape", {1, 2}), string_attr("activation", "Clip"),
                  floats_attr("activation_params", {-0.75f, 3})},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 2, 2, 2}), {-0.75, -0.75, -0.75, -0.75, -0.75, -0.5, 3, 3});
  }
}

TEST(FusedOperators, GemmActivates) {
  OneNode node{"FusedGemm",
               {ramp({2, 2}, -3, 1.5f), ramp({3, 2}, 0.5f, -0.25f), f32_tensor({3}, {1, 2, 3})},
               {int_attr("transB", 1), float_attr("alpha", 0.5f),
                string_attr("activation", "LeakyRelu"), float_attr("activation_alpha", 0.25f)},
               17};
  node.domain = "com.microsoft";
  expect_values(node.run_for({2, 3}), {0.0625, 2.1875, 4.3125, 1.1875, 1.8125, 2.4375});
}

TEST(FusedOperators, MatMulTurnsItsFactors) {
  {
    OneNode node{"FusedMatMul",
                 {ramp({3, 2}), ramp({3, 2}, 0, 0.5f)},
                 {int_attr("transA", 1), float_attr("alpha", 2)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({2, 2}), {26, 35, 32, 44});
  }
  {
    OneNode node{"FusedMatMul",
                 {ramp({2, 2, 3}), ramp({2, 2, 3}, 0, 0.5f)},
                 {int_attr("transBatchA", 1), int_attr("transBatchB", 1), int_attr("transB", 1)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({2, 2, 2}), {4, 22, 13, 85, 31, 76, 67, 166});
  }
}

TEST(FusedOperators, GeluWithABias) {
  {
    OneNode node{"BiasGelu", {ramp({2, 2}, -1, 0.5f), f32_tensor({2}, {0.25f, 1})}, {}, 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({2, 2}), {-0.1699705, 0.3457312, 0.1496766, 1.399789});
  }
  {
    OneNode node{"FastGelu", {ramp({2, 2}, -1, 0.5f), f32_tensor({2}, {0.25f, 1})}, {}, 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({2, 2}), {-0.1700394, 0.345714, 0.1496754, 1.399572});
  }
}

TEST(FusedOperators, MatMulNBitsUnpacksBlocks) {
  {
    OneNode node{
        "MatMulNBits",
        {ramp({1, 20}, 1, 0.5f),
         tensor_of<int>(
             DType::kU8, {2, 2, 8},
             {11, 48,  85,  122, 159, 196, 233, 14, 51,  88,  125, 162, 199, 236, 17, 54,
              91, 128, 165, 202, 239, 20,  57,  94, 131, 168, 205, 242, 23,  60,  97, 134}),
         f32_tensor({4}, {0.5f, 0.25f, 1, 2})},
        {int_attr("K", 20), int_attr("N", 2), int_attr("bits", 4), int_attr("block_size", 16)},
        17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 2}), {-20.5, -51});
  }
  {
    OneNode node{
        "MatMulNBits",
        {ramp({1, 20}, 1, 0.5f),
         tensor_of<int>(
             DType::kU8, {2, 2, 8},
             {11, 48,  85,  122, 159, 196, 233, 14, 51,  88,  125, 162, 199, 236, 17, 54,
              91, 128, 165, 202, 239, 20,  57,  94, 131, 168, 205, 242, 23,  60,  97, 134}),
         f32_tensor({4}, {0.5f, 0.25f, 1, 2}), tensor_of<int>(DType::kU8, {2}, {58, 145})},
        {int_attr("K", 20), int_attr("N", 2), int_attr("bits", 4), int_attr("block_size", 16)},
        17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 2}), {-47.75, 403});
  }
}

TEST(QuantizedOperators, AddAndConcatRescale) {
  {
    OneNode node{
        "QLinearAdd",
        {tensor_of<int>(DType::kU8, {4}, {0, 100, 200, 255}), f32_tensor({}, {0.5f}),
         tensor_of<int>(DType::kU8, {}, {100}), tensor_of<int>(DType::kU8, {4}, {10, 20, 30, 40}),
         f32_tensor({}, {0.25f}), tensor_of<int>(DType::kU8, {}, {20}), f32_tensor({}, {1}),
         tensor_of<int>(DType::kU8, {}, {60})},
        {},
        17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({4}), {8, 60, 112, 142});
  }
  {
    OneNode node{
        "QLinearConcat",
        {f32_tensor({}, {0.5f}), tensor_of<int>(DType::kU8, {}, {10}),
         tensor_of<int>(DType::kU8, {1, 2}, {0, 200}), f32_tensor({}, {0.25f}),
         tensor_of<int>(DType::kU8, {}, {100}), tensor_of<int>(DType::kU8, {1, 3}, {7, 8, 255}),
         f32_tensor({}, {1}), tensor_of<int>(DType::kU8, {}, {7})},
        {int_attr("axis", 1)},
        17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 5}), {0, 60, 10, 12, 255});
  }
}

TEST(QuantizedOperators, PoolsAndSoftmaxRescale) {
  {
    OneNode node{"QLinearAveragePool",
                 {tensor_of<int>(DType::kU8, {1, 1, 2, 2}, {10, 20, 30, 44}),
                  f32_tensor({}, {0.5f}), tensor_of<int>(DType::kU8, {}, {10}),
                  f32_tensor({}, {0.25f}), tensor_of<int>(DType::kU8, {}, {3})},
                 {ints_attr("kernel_shape", {2, 2})},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 1, 1, 1}), {35});
  }
  {
    OneNode node{"QLinearGlobalAveragePool",
                 {tensor_of<int>(DType::kU8, {1, 1, 2, 2}, {10, 20, 30, 44}),
                  f32_tensor({}, {0.5f}), tensor_of<int>(DType::kU8, {}, {10}),
                  f32_tensor({}, {0.25f}), tensor_of<int>(DType::kU8, {}, {3})},
                 {int_attr("channels_last", 0)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 1, 1, 1}), {35});
  }
  {
    OneNode node{"QLinearSoftmax",
                 {tensor_of<int>(DType::kU8, {1, 3}, {10, 12, 14}), f32_tensor({}, {0.5f}),
                  tensor_of<int>(DType::kU8, {}, {10}), f32_tensor({}, {0.00390625f}),
                  tensor_of<int>(DType::kU8, {}, {0})},
                 {int_attr("axis", 1), int_attr("opset", 13)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 3}), {23, 63, 170});
  }
  {
    OneNode node{"QLinearLeakyRelu",
                 {tensor_of<int>(DType::kU8, {3}, {0, 10, 90}), f32_tensor({}, {0.5f}),
                  tensor_of<int>(DType::kU8, {}, {10}), f32_tensor({}, {0.25f}),
                  tensor_of<int>(DType::kU8, {}, {30})},
                 {float_attr("alpha", 0.5f)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({3}), {20, 30, 190});
  }
}

TEST(QuantizedOperators, GemmHasABiasInSteps) {
  {
    OneNode node{"QGemm",
                 {tensor_of<int>(DType::kU8, {2, 2}, {1, 2, 3, 4}), f32_tensor({}, {0.5f}),
                  tensor_of<int>(DType::kU8, {}, {1}),
                  tensor_of<int>(DType::kI8, {3, 2}, {1, -1, 2, 5, -7, 3}),
                  f32_tensor({3}, {0.5f, 0.25f, 1}), tensor_of<int>(DType::kI8, {3}, {0, 0, 0}),
                  tensor_of<int>(DType::kI32, {3}, {4, 8, -16})},
                 {int_attr("transB", 1)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({2, 3}), {0.75, 1.625, -6.5, 0.75, 3.375, -10.5});
  }
  {
    OneNode node{"QGemm",
                 {tensor_of<int>(DType::kU8, {2, 2}, {1, 2, 3, 4}), f32_tensor({}, {0.5f}),
                  tensor_of<int>(DType::kU8, {}, {1}),
                  tensor_of<int>(DType::kI8, {3, 2}, {1, -1, 2, 5, -7, 3}),
                  f32_tensor({3}, {0.5f, 0.25f, 1}), tensor_of<int>(DType::kI8, {3}, {0, 0, 0}),
                  tensor_of<int>(DType::kI32, {3}, {4, 8, -16}), f32_tensor({}, {0.5f}),
                  tensor_of<int>(DType::kU8, {}, {128})},
                 {int_attr("transB", 1)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({2, 3}), {130, 131, 115, 130, 135, 107});
  }
}

TEST(QuantizedOperators, MatMulQuantisesItsInput) {
  {
    OneNode node{
        "DynamicQuantizeMatMul",
        {f32_tensor({2, 2}, {-1, 2, 0.25f, 0.7f}),
         tensor_of<int>(DType::kI8, {2, 2}, {3, -5, 7, 100}), f32_tensor({2}, {0.5f, 0.25f}),
         tensor_of<int>(DType::kI8, {2}, {1, 0}), f32_tensor({2}, {1, -1})},
        {},
        17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({2, 2}), {6, 50.25, 3.329412, 16.04412});
  }
  {
    OneNode node{"MatMulIntegerToFloat",
                 {tensor_of<int>(DType::kU8, {1, 2}, {9, 200}),
                  tensor_of<int>(DType::kI8, {2, 2}, {3, -5, 7, 100}), f32_tensor({1}, {0.5f}),
                  f32_tensor({1}, {0.25f}), tensor_of<int>(DType::kU8, {1}, {100})},
                 {},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 2}), {53.375, 1306.875});
  }
}

TEST(QuantizedOperators, LstmRoundsWhatItMultiplies) {
  OneNode node{
      "DynamicQuantizeLSTM",
      {ramp({2, 1, 2}, -0.5f, 0.4f),
       tensor_of<int>(DType::kI8, {1, 2, 8},
                      {-100, -71, -42, -13, 16, 45, 74, -97, -68, -39, -10, 19, 48, 77, -94, -65}),
       tensor_of<int>(DType::kI8, {1, 2, 8},
                      {-90, -37, 16, 69, -58, -5, 48, -79, -26, 27, 80, -47, 6, 59, -68, -15}),
       ramp({1, 16}, -0.4f, 0.05f), std::nullopt, std::nullopt, std::nullopt, std::nullopt,
       f32_tensor({1}, {0.01f}), tensor_of<int>(DType::kI8, {1}, {0}), f32_tensor({1}, {0.02f}),
       tensor_of<int>(DType::kI8, {1}, {0})},
      {int_attr("hidden_size", 2)},
      17,
      {true, true, true}};
  node.domain = "com.microsoft";
  expect_values(node.run_for({2, 1, 1, 2}), {-0.02078533, 0.16839, -0.05892635, 0.05226566}, 1e-5);
  expect_values(node.run_for({1, 1, 2}, 1), {-0.05892635, 0.05226566}, 1e-5);
  expect_values(node.run_for({1, 1, 2}, 2), {-0.1269677, 0.1161709}, 1e-5);
}

TEST(FusedAttention, AttentionProjectsAndMasks) {
  {
    OneNode node{"Attention",
                 {ramp({1, 3, 2}, -0.5f, 0.25f), ramp({2, 6}, -1, 0.2f), ramp({6}, 0.3f, -0.1f),
                  tensor_of<int>(DType::kI32, {1, 3}, {1, 1, 0})},
                 {int_attr("num_heads", 1)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 3, 2}),
                  {-0.04293187, -0.1893978, -0.04575799, -0.193637, -0.0485858, -0.1978787});
  }
  {
    OneNode node{"Attention",
                 {ramp({1, 3, 2}, -0.5f, 0.25f), ramp({2, 6}, -1, 0.2f), ramp({6}, 0.3f, -0.1f),
                  std::nullopt, ramp({2, 1, 1, 1, 2}, 0.5f, 0.25f)},
                 {int_attr("num_heads", 1), int_attr("unidirectional", 1)},
                 17,
                 {true, true}};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 3, 2}),
                  {0.497683, 0.5467561, 0.3506287, 0.3535627, 0.3701216, 0.3982244});
    expect_values(node.run_for({2, 1, 1, 4, 2}, 1),
                  {0.5, 0.75, 0.25, -2.980232e-08, 0.25, 0.2, 0.25, 0.4000001, 1, 1.25, -0.25, -0.5,
                   0.15, 0.1, 0.55, 0.7});
  }
  {
    OneNode node{"Attention",
                 {ramp({1, 3, 2}, -0.5f, 0.25f), ramp({2, 6}, -1, 0.2f), ramp({6}, 0.3f, -0.1f),
                  tensor_of<int>(DType::kI32, {1}, {2})},
                 {int_attr("num_heads", 2)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 3, 2}),
                  {-0.05, -0.1850125, -0.05, -0.1910027, -0.05, -0.1970001});
  }
}

TEST(FusedAttention, HeadsOfTheirOwnKeys) {
  {
    OneNode node{"MultiHeadAttention",
                 {ramp({1, 2, 2}, -0.5f, 0.5f), ramp({1, 3, 2}, 0.5f, -0.25f), ramp({1, 3, 2}),
                  ramp({6}, 0.1f, 0.1f), tensor_of<int>(DType::kI32, {1, 3}, {1, 0, 1})},
                 {int_attr("num_heads", 2)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 2, 2}), {3.894751, 4.400664, 2.917375, 3.525901});
  }
  {
    OneNode node{
        "MultiHeadAttention",
        {ramp({1, 1, 2}, -0.5f, 0.5f), ramp({1, 1, 2}, 0.5f, -0.25f), ramp({1, 1, 2}), std::nullopt,
         std::nullopt, std::nullopt, ramp({1, 1, 2, 2}, 0.2f, 0.1f), ramp({1, 1, 2, 2})},
        {int_attr("num_heads", 1), float_attr("scale", 0.5f)},
        17,
        {true, true, true}};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 1, 2}), {1.660812, 2.660812});
    expect_values(node.run_for({1, 1, 3, 2}, 1), {0.2, 0.3, 0.4, 0.5, 0.5, 0.25});
    expect_values(node.run_for({1, 1, 3, 2}, 2), {1, 2, 3, 4, 1, 2});
  }
}

TEST(FusedAttention, RotaryEmbeddingAtAnOffset) {
  {
    OneNode node{"RotaryEmbedding",
                 {ramp({1, 1, 2, 4}), i64_tensor({1}, {1}), ramp({4, 2}, 0.1f, 0.2f),
                  ramp({4, 2}, -0.3f, 0.1f)},
                 {},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 1, 2, 4}), {0.8, 1.4, 1.4, 2.8, 3.8, 5, 6.8, 10});
  }
  {
    OneNode node{"RotaryEmbedding",
                 {ramp({1, 2, 4}), i64_tensor({1, 2}, {3, 0}), ramp({4, 2}, 0.1f, 0.2f),
                  ramp({4, 2}, -0.3f, 0.1f)},
                 {int_attr("interleaved", 1)},
                 17};
    node.domain = "com.microsoft";
    expect_values(node.run_for({1, 2, 4}), {0.7, 2.9, 2.9, 7.2, 2.3, -0.9, 3.7, 1});
  }
}

TEST(FusedAttention, EmbeddingsAreSummedAndNormalised) {
  OneNode node{
      "EmbedLayerNormalization",
      {tensor_of<int>(DType::kI32, {1, 2}, {2, 0}), tensor_of<int>(DType::kI32, {1, 2}, {1, 0}),
       ramp({3, 2}, 0, 0.7f), f32_tensor({2, 2}, {0.5f, -1, 2, 0.25f}), ramp({2, 2}, 1, -0.9f),
       f32_tensor({2}, {1, 2}), f32_tensor({2}, {0.5f, 0}),
       tensor_of<int>(DType::kI32, {1, 2}, {1, 0})},
      {float_attr("epsilon", 0.25f)},
      17,
      {true, true}};
  node.domain = "com.microsoft";
  expect_values(node.run_for({1, 2, 2}), {1.361934, -1.723868, 1.389817, -1.779635});
  expect_values(node.run_for({1}, 1), {1});
}

TEST(FusedAttention, QuantisedProjection) {
  OneNode node{
      "QAttention",
      {tensor_of<int>(DType::kU8, {1, 2, 2}, {100, 140, 90, 128}),
       tensor_of<int>(DType::kI8, {2, 6}, {-60, 10, 33, 90, -20, 5, 17, 44, -90, 61, -7, 100}),
       ramp({6}, 0.3f, -0.1f), f32_tensor({1}, {0.02f}), f32_tensor({1}, {0.01f}),
       tensor_of<int>(DType::kI32, {1, 2}, {1, 1}), tensor_of<int>(DType::kU8, {1}, {120}),
       tensor_of<int>(DType::kI8, {1}, {0})},
      {int_attr("num_heads", 1)},
      17};
  node.domain = "com.microsoft";
  expect_values(node.run_for({1, 2, 2}), {-0.01978546, 0.05581628, -0.01925455, 0.05347956}, 1e-5);
}

TEST(FusedAttention, EachSequenceHasItsOwnPast) {
  // Queries of zero weigh the keys that they see alike.
  OneNode node{"GroupQueryAttention",
               {f32_tensor({2, 1, 2}, {0, 0, 0, 0}), ramp({2, 1, 1}), f32_tensor({2, 1, 1}, {5, 7}),
                ramp({2, 1, 2, 1}), f32_tensor({2, 1, 2, 1}, {10, 20, 30, 40}),
                tensor_of<int>(DType::kI32, {2}, {1, 2}), tensor_of<int>(DType::kI32, {1}, {3})},
               {int_attr("num_heads", 2), int_attr("kv_num_heads", 1)},
               17,
               {true, true, true}};
  node.domain = "com.microsoft";
  expect_values(node.run_for({2, 1, 2}), {7.5, 7.5, 77.0 / 3, 77.0 / 3});
  // Behind a sequence's keys lies what nobody reads.
  std::vector<double> values = node.run_for({2, 1, 3, 1}, 2);
  ASSERT_EQ(values.size(), 6U);
  values[2] = 0;
  expect_values(values, {10, 5, 0, 30, 40, 7});
  node.attributes.push_back(int_attr("local_window_size", 1));
  expect_values(node.run_for({2, 1, 2}), {5, 5, 7, 7});
}

TEST(FusedOperators, RefuseWhatTheyDoNotCompute) {
  OneNode node{"FusedConv",
               {ramp({1, 1, 2, 2}), ramp({1, 1, 1, 1})},
               {string_attr("activation", "Clip")},
               17};
  node.domain = "com.microsoft";
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("two activation"));
  node.op_type = "MatMulNBits";
  node.attributes = {int_attr("N", 2), int_attr("K", int64_t{1} << 40), int_attr("block_size", 16)};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("out of range"));
}

}  // namespace
}  // namespace weft::onnx
