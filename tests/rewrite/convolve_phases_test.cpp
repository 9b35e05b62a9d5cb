// Phases of transposed convolutions become features: with the values of the interpreter, for each
// way in which taps, steps and borders may meet.

#include "rewrite/convolve_phases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "interp/interpreter.h"
#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

HostTensor numbered(const TensorType& type, int64_t period) {
  HostTensor out(type.dtype, type.shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_double(i, static_cast<double>(i * 7 % period - period / 2));
  return out;
}

/// Both compute the same numbers, which are small integers.
void expect_same(const std::string& text) {
  Graph graph = parsed(text);
  EXPECT_TRUE(convolve_phases(graph).changed) << text;
  const Status status = verify_graph(graph);
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (const Node& node : graph.nodes) {
    if (node.op != GraphOp::kConvolution) continue;
    for (const int64_t d : std::get<ConvolutionAttrs>(node.attrs).lhs_dilations) EXPECT_EQ(d, 1);
  }
  EXPECT_FALSE(convolve_phases(graph).changed);
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph.inputs) inputs.push_back(numbered(graph.type(v), 11));
  const auto before = interpret(parsed(text), inputs), after = interpret(graph, inputs);
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_EQ((*after)[0].shape(), (*before)[0].shape());
  for (int64_t i = 0; i < (*before)[0].size(); ++i)
    ASSERT_EQ((*after)[0].at_double(i), (*before)[0].at_double(i)) << i << " of\n" << text;
}

TEST(ConvolvePhases, EachWayToMeet) {
  for (const int taps : {1, 2, 3, 4, 7, 8}) {
    for (const int step : {2, 3, 4}) {
      for (const int low : {-2, 0, 1, 3, 7}) {
        for (const int high : {-1, 0, 2, 6}) {
          const int length = 4 * step + 1 + low + high - taps + 1;
          if (length < 1) continue;
          expect_same(fmt::format(
              "(x: f32[2,3,5], w: f32[2,3,{0}]) {{\n  y = convolution x, w, strides={{1}}, "
              "low={{{2}}}, high={{{3}}}, lhs_dilations={{{1}}}, rhs_dilations={{1}}, groups=1 : "
              "f32[2,2,{4}]\n}} -> (y)",
              taps, step, low, high, length));
        }
      }
    }
  }
}

TEST(ConvolvePhases, TwoAxesOfWhichOneIsStridedAndGroups) {
  expect_same(R"((x: f32[1,2,3,4], w: f32[3,2,4,3]) {
  y = convolution x, w, strides={1,1}, low={2,1}, high={2,2}, lhs_dilations={2,3}, rhs_dilations={1,1}, groups=1 : f32[1,3,6,11]
} -> (y))");
  expect_same(R"((x: f32[1,4,3,9], w: f32[2,2,2,3]) {
  y = convolution x, w, strides={1,2}, low={1,0}, high={1,0}, lhs_dilations={2,1}, rhs_dilations={1,2}, groups=2 : f32[1,2,6,3]
} -> (y))");
}

/// Of what has a full window in each phase nothing is said; of others that zeros stand there.
TEST(ConvolvePhases, SaysWhereZerosAre) {
  const auto filled = [](const std::string& low) {
    Graph graph =
        parsed("(x: f32[1,3,5], w: f32[1,3,4]) {\n  y = convolution x, w, strides={1}, low={" +
               low + "}, high={3}, lhs_dilations={2}, rhs_dilations={1}, groups=1 : f32[1,1," +
               std::to_string(9 + std::stoi(low)) + "]\n} -> (y)");
    return convolve_phases(graph).filled;
  };
  EXPECT_EQ(filled("3"), std::vector<std::string>{});
  EXPECT_EQ(filled("2"), std::vector<std::string>{"y"});
}

TEST(ConvolvePhases, LeavesManyFeaturesAndDilatedTaps) {
  const auto pass = [](Graph& graph) { return convolve_phases(graph).changed; };
  expect_unchanged(pass, R"((x: f32[1,3,5], w: f32[16,3,4]) {
  y = convolution x, w, strides={1}, low={3}, high={3}, lhs_dilations={2}, rhs_dilations={1}, groups=1 : f32[1,16,12]
} -> (y))");
  expect_unchanged(pass, R"((x: f32[1,3,5], w: f32[1,3,2]) {
  y = convolution x, w, strides={1}, low={3}, high={3}, lhs_dilations={2}, rhs_dilations={2}, groups=1 : f32[1,1,13]
} -> (y))");
}

}  // namespace
}  // namespace weft
