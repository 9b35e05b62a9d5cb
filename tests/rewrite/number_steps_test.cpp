#include "rewrite/number_steps.h"

#include "rewrite/hoist_from_scans.h"
#include "tests/rewrite/expect_scans.h"

namespace weft {
namespace {

/// A loop over rows by a counter of its own; `$FIRST` and `$STEP` of it.
std::string loop(const std::string& first, const std::string& step) {
  std::string text = R"((h0: f32[1,4], x: f32[9,1,3], s: f32[4,1], w: f32[3,4]) {
  i0 = constant $FIRST : i32[]
  i, h, ys = scan i0, h0, s, x, w, carry_count=2, scanned_count=1, x_reverse={false}, y_reverse={false} : i32[], f32[1,4], f32[4,1,4]
    region (i: i32[], h: f32[1,4], s: f32[1], x: f32[9,1,3], w: f32[3,4]) {
      c = constant $STEP : i32[]
      j = add c, i : i32[]
      row = gather x, i, axis=0, batch_dims=0 : f32[1,3]
      p = dot_general row, w, lhs_contract={1}, rhs_contract={0} : f32[1,4]
      b = broadcast s, dims={0} : f32[1,4]
      m = mul p, b : f32[1,4]
      n = add m, h : f32[1,4]
    } -> (j, n, y=n)
} -> (i, h, ys))";
  for (const auto& [name, value] : {std::pair("$FIRST", first), std::pair("$STEP", step)})
    text.replace(text.find(name), std::string(name).size(), value);
  return text;
}

TEST(NumberSteps, CountersBecomeSlices) {
  for (const auto& [first, step] : {std::pair("0", "1"), {"1", "2"}, {"8", "-2"}}) {
    expect_scans(number_steps, loop(first, step), 1);
    Graph graph = parsed(loop(first, step));
    EXPECT_TRUE(number_steps(graph));
    const Node& scan = *std::ranges::find(graph.nodes, GraphOp::kScan, &Node::op);
    EXPECT_EQ(std::get<ScanAttrs>(scan.attrs).carry_count, 1);
    // Rows by them, and their product, are known before the first step.
    EXPECT_TRUE(hoist_from_scans(graph));
    const Node& left = *std::ranges::find(graph.nodes, GraphOp::kScan, &Node::op);
    EXPECT_EQ(std::ranges::count(left.regions[0]->nodes, GraphOp::kDotGeneral, &Node::op), 0)
        << print(graph);
    EXPECT_EQ(std::ranges::count(left.regions[0]->nodes, GraphOp::kGather, &Node::op), 0);
    const Graph before = parsed(loop(first, step));
    const std::vector<HostTensor> inputs = random_inputs(before, 3, false);
    const auto expected = interpret(before, inputs), actual = interpret(graph, inputs);
    ASSERT_TRUE(expected.ok() && actual.ok()) << print(graph);
    EXPECT_EQ(difference(*actual, *expected), "") << print(graph);
  }
}

TEST(NumberSteps, LeavesWhatWrapsAndWhatGrowsUnevenly) {
  expect_unchanged(number_steps, loop("2147483640", "5"));
  std::string doubled = loop("1", "1");
  const std::string sum = "j = add c, i";
  doubled.replace(doubled.find(sum), sum.size(), "j = add i, i");
  expect_unchanged(number_steps, doubled);
}

}  // namespace
}  // namespace weft
