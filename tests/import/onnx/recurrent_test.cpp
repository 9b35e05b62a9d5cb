#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

const HostTensor& input() {
  static const HostTensor x = ramp({3, 2, 2}, -0.6f, 0.1f);
  return x;
}

TEST(Lstm, ProjectionStandsOutsideTheScan) {
  OneNode node{"LSTM",
               {ramp({2, 1, 3}), ramp({1, 4, 3}), ramp({1, 4, 1})},
               {int_attr("hidden_size", 1)},
               14};
  std::string text = node.text();
  EXPECT_THAT(text, testing::HasSubstr("lhs_contract={2}, rhs_contract={1} : f32[2,1,4]"));
  EXPECT_LT(text.find("f32[2,1,4]"), text.find("scan"));
  EXPECT_EQ(text.find("dot_general", text.find("dot_general", text.find("region")) + 1),
            std::string::npos);
}

TEST(Lstm, PeepholesAndLengths) {
  OneNode node{"LSTM",
               {input(), ramp({1, 8, 2}, -0.4f, 0.05f), ramp({1, 8, 2}, 0.4f, -0.05f),
                ramp({1, 16}, -0.2f, 0.03f), tensor_of<int>(DType::kI32, {2}, {3, 2}), std::nullopt,
                std::nullopt, ramp({1, 6}, 0.1f, 0.1f)},
               {int_attr("hidden_size", 2)},
               14,
               {true, true, true}};
  expect_values(node.run_for({3, 1, 2, 2}),
                {-0.013597156, -0.027169785, 0.012374247, 0.0095374165, 0.028546736, 0.030760767,
                 0.054667532, 0.073100261, 0.07344576, 0.1051308, 0, 0});
  expect_values(node.run_for({1, 2, 2}, 1), {0.07344576, 0.1051308, 0.054667532, 0.073100261});
  expect_values(node.run_for({1, 2, 2}, 2), {0.15330327, 0.20584355, 0.11077123, 0.14196643});
}

TEST(Lstm, BothDirectionsClippedWithCoupledGates) {
  OneNode node{"LSTM",
               {input(), ramp({2, 4, 2}, -0.4f, 0.05f), ramp({2, 4, 1}, 0.4f, -0.05f)},
               {int_attr("hidden_size", 1), string_attr("direction", "bidirectional"),
                float_attr("clip", 0.2f), int_attr("input_forget", 1)},
               14,
               {true, true, true}};
  expect_values(node.run_for({3, 2, 2, 1}),
                {0.025616709, 0.016568277, -0.046511009, -0.030628027, 0.020160798, 0.0073762503,
                 -0.0025984482, 0.034601197, 0.0034224917, -0.0090931291, 0.042428438, 0.05265503});
  expect_values(node.run_for({2, 2, 1}, 1),
                {0.0034224917, -0.0090931291, -0.046511009, -0.030628027});
  expect_values(node.run_for({2, 2, 1}, 2),
                {0.0073122466, -0.020202249, -0.10009832, -0.063887447});
}

TEST(Lstm, LayoutExchangesBatchAndTime) {
  OneNode node{"LSTM",
               {input(), ramp({1, 4, 2}, -0.4f, 0.05f), ramp({1, 4, 1}, 0.4f, -0.05f)},
               {int_attr("hidden_size", 1)},
               14,
               {true, true}};
  std::vector<double> time_first = node.run_for({3, 1, 2, 1});
  HostTensor batch_first(DType::kF32, {2, 3, 2});
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < 4; ++i) {
      batch_first.set_double((i / 2 * 3 + t) * 2 + i % 2, input().at_double(t * 4 + i));
    }
  }
  node.inputs[0] = batch_first;
  node.attributes.push_back(int_attr("layout", 1));
  std::vector<double> y = node.run_for({2, 3, 1, 1});
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(y[i * 3 + t], time_first[t * 2 + i]);
  }
  EXPECT_EQ(node.run_for({2, 1, 1}, 1), (std::vector<double>{time_first[4], time_first[5]}));
}

TEST(Gru, ResetBeforeAndAfterTheProduct) {
  OneNode node{"GRU",
               {input(), ramp({1, 6, 2}, -0.4f, 0.05f), ramp({1, 6, 2}, 0.4f, -0.05f),
                ramp({1, 12}, -0.2f, 0.03f)},
               {int_attr("hidden_size", 2)},
               14,
               {true, true}};
  expect_values(
      node.run_for({3, 1, 2, 2}),
      {-0.0022570151, -0.025484061, 0.0024437236, -0.0024562532, 0.0071996734, 0.012228823,
       0.015182275, 0.050643139, 0.02364447, 0.08691173, 0.033185627, 0.13273966});
  node.inputs.emplace_back(tensor_of<int>(DType::kI32, {2}, {3, 2}));
  node.attributes.push_back(int_attr("linear_before_reset", 1));
  node.attributes.push_back(string_attr("direction", "reverse"));
  expect_values(node.run_for({3, 1, 2, 2}),
                {-0.037658334, -0.049589135, -0.029908396, -0.026385324, -0.025020989, 0.0094627067,
                 -0.015699124, 0.015580748, -0.011763419, 0.044372045, 0, 0});
  expect_values(node.run_for({1, 2, 2}, 1),
                {-0.037658334, -0.049589135, -0.029908396, -0.026385324});
}

TEST(Rnn, TakesParametersOfItsActivation) {
  OneNode node{"RNN",
               {input(), ramp({1, 2, 2}, -0.4f, 0.05f), ramp({1, 2, 2}, 0.4f, -0.05f)},
               {int_attr("hidden_size", 2), strings_attr("activations", {"LeakyRelu"}),
                floats_attr("activation_alpha", {0.5f})},
               14,
               {false, true}};
  expect_values(node.run_for({1, 2, 2}), {0.070112526, 0.052762523, -0.12158123, -0.088706248});
  EXPECT_EQ(node.text().find("f32[3,2,2]}"), std::string::npos) << "nothing reads the sequence";
}

TEST(Recurrent, WrongShapesAndNamesAreInvalid) {
  OneNode node{
      "RNN", {input(), ramp({1, 2, 3}), ramp({1, 2, 2})}, {int_attr("hidden_size", 2)}, 14};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("W is f32[1,2,3]"));
  node.inputs[1] = ramp({1, 2, 2});
  node.attributes.push_back(strings_attr("activations", {"Cosine"}));
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("\"Cosine\""));
}

}  // namespace
}  // namespace weft::onnx
