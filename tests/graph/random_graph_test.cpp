#include "tests/graph/random_graph.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace weft {
namespace {

TEST(RandomGraph, VerifiesAndRoundTrips) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_graph(seed);
    const Status status = verify_graph(graph);
    ASSERT_TRUE(status.ok()) << status.error().message << "\n" << print(graph);
    const PrintGraphOptions whole{.max_inline_elements = 1 << 20};
    const std::string text = print(graph, whole);
    const Result<Graph> parsed = parse_graph(text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message << "\n" << text;
    ASSERT_EQ(print(*parsed, whole), text);
    ASSERT_EQ(print(random_graph(seed), whole), text);
  }
}

void count_ops(const Graph& graph, std::map<GraphOp, int>& ops, std::set<ScalarOp>& scalars) {
  for (const Node& node : graph.nodes) {
    ++ops[node.op];
    if (node.op == GraphOp::kElementwise) {
      scalars.insert(std::get<ElementwiseAttrs>(node.attrs).op);
    }
    for (const auto& region : node.regions) count_ops(*region, ops, scalars);
  }
}

TEST(RandomGraph, MakesEveryOp) {
  std::map<GraphOp, int> ops;
  std::set<ScalarOp> scalars;
  for (uint64_t seed = 0; seed < 400; ++seed) count_ops(random_graph(seed), ops, scalars);
  for (int op = 0; op <= static_cast<int>(GraphOp::kScan); ++op) {
    EXPECT_GE(ops[static_cast<GraphOp>(op)], 20) << graph_op_name(static_cast<GraphOp>(op));
  }
  EXPECT_EQ(scalars.size(), static_cast<size_t>(ScalarOp::kBitcast) + 1);
}

}  // namespace
}  // namespace weft
