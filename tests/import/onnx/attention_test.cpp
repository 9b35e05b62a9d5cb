#include <cmath>
#include <limits>

#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

TEST(Attention, SharedKeyHeadsAreNotRepeated) {
  OneNode node{"Attention", {ramp({1, 4, 2, 8}), ramp({1, 2, 3, 8}), ramp({1, 2, 3, 8})}, {}, 23};
  std::string text = node.text();
  EXPECT_THAT(text, testing::HasSubstr("f32[1,2,4,3]"));
  EXPECT_EQ(text.find("f32[1,4,3,8]"), std::string::npos);
}

TEST(Attention, CausalRowsSeeThePast) {
  const HostTensor zeros_like_scores = f32_tensor({1, 1, 2, 1}, {1e-30f, 1e-30f});
  OneNode node{"Attention",
               {zeros_like_scores, zeros_like_scores, f32_tensor({1, 1, 2, 1}, {1, 3})},
               {int_attr("is_causal", 1)},
               23};
  expect_values(node.run_for({1, 1, 2, 1}), {1, 2});
  // With one key of the past, the first query sees two keys.
  node.inputs.insert(node.inputs.end(), {std::nullopt, f32_tensor({1, 1, 1, 1}, {1e-30f}),
                                         f32_tensor({1, 1, 1, 1}, {8})});
  node.outputs = {true, true, true};
  expect_values(node.run_for({1, 1, 2, 1}), {4.5, 4});
  expect_values(node.run_for({1, 1, 3, 1}, 2), {8, 1, 3});
}

TEST(Attention, RowWithoutKeysIsZero) {
  OneNode node{"Attention",
               {ramp({1, 1, 2, 1}), ramp({1, 1, 2, 1}), ramp({1, 1, 2, 1}),
                tensor_of<int>(DType::kBool, {2, 2}, {0, 0, 1, 0})},
               {},
               23};
  expect_values(node.run_for({1, 1, 2, 1}), {0, 1});
}

TEST(Attention, PackedHeadsAndScoresOutput) {
  OneNode node{"Attention",
               {ramp({1, 1, 2}), ramp({1, 1, 2}), f32_tensor({1, 1, 2}, {5, 7})},
               {int_attr("q_num_heads", 2), int_attr("kv_num_heads", 2), float_attr("scale", 0.5f),
                float_attr("softcap", 2), int_attr("qk_matmul_output_mode", 1)},
               24,
               {true, false, false, true}};
  expect_values(node.run_for({1, 1, 2}), {5, 7});
  expect_values(node.run_for({1, 2, 1, 1}, 1), {2 * std::tanh(0.25), 2 * std::tanh(1)});
}

TEST(RotaryEmbedding, RotatesPairsHalfAHeadApartOrNeighbours) {
  // A quarter turn: (x1, x2) -> (-x2, x1); the last two elements stay.
  OneNode node{"RotaryEmbedding",
               {ramp({1, 1, 1, 6}), f32_tensor({1, 1, 2}, {0, 0}), f32_tensor({1, 1, 2}, {1, 1})},
               {int_attr("rotary_embedding_dim", 4)},
               23};
  expect_values(node.run_for({1, 1, 1, 6}), {-3, -4, 1, 2, 5, 6});
  node.attributes.push_back(int_attr("interleaved", 1));
  expect_values(node.run_for({1, 1, 1, 6}), {-2, 1, -4, 3, 5, 6});
}

TEST(LinearAttention, CarriesItsState) {
  OneNode node{"LinearAttention",
               {ramp({1, 2, 1}), ramp({1, 2, 1}), f32_tensor({1, 2, 1}, {3, 5}),
                f32_tensor({1, 1, 1, 1}, {10})},
               {int_attr("q_num_heads", 1), int_attr("kv_num_heads", 1),
                string_attr("update_rule", "linear"), float_attr("scale", 1)},
               27,
               {true, true}};
  // States 10 + 1*3 = 13, then 13 + 2*5 = 23.
  expect_values(node.run_for({1, 2, 1}), {13, 46});
  expect_values(node.run_for({1, 1, 1, 1}, 1), {23});
}

}  // namespace
}  // namespace weft::onnx
