// What `explain --why` says of two nodes, neighbours or not.

#include "driver/explain/verdict_together.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/compiler.h"
#include "driver/explain/edge_verdicts.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// A row's sum, the rows less it, a product of them and a sum of its columns' squares; beside them
/// something of the other factor, and a top-k, which is an opaque step.
constexpr const char* kGraph = R"((x: f32[64,96], w: f32[96,48]) {
  s = reduce x, axes={1}, combiner=sum : f32[64]
  b = broadcast s, dims={0} : f32[64,96]
  y = sub x, b : f32[64,96]
  p = dot_general y, w, lhs_contract={1}, rhs_contract={0} : f32[64,48]
  q = mul p, p : f32[64,48]
  z = reduce q, axes={0}, combiner=sum : f32[48]
  a = abs w : f32[96,48]
  t, i = top_k z, axis=0, k=3, largest=true : f32[3], i64[3]
} -> (z, a, t, i))";

std::unique_ptr<Compilation> planned(const std::string& target, const std::string& planner) {
  auto graph = parse_graph(kGraph);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  CompileOptions options;
  options.device = *find_target(target);
  options.planner = planner;
  options.compositions = "leaf";
  options.stop_after = "plan";
  auto c = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return std::move(*c);
}

TEST(VerdictTogether, SaysThatNodesAreInOneKernel) {
  const auto c = planned("a100-40gb", "greedy");
  const auto v = verdict_together(explained(*c), "s", "y");
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_EQ(v->verdict, "fused");
  EXPECT_THAT(v->reason, HasSubstr("both are in kernel k"));
}

/// Nodes of the model that the program's expressions hold together.
TEST(VerdictTogether, SaysThatNodesAreOneExpression) {
  auto graph = parse_graph(R"((x: f32[8,96]) {
    e = exp x : f32[8,96]
    s = slice e, start={0,0}, step={2,1} : f32[4,96]
    y = neg s : f32[4,96]
  } -> (y))");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  for (size_t n = 0; n < graph->nodes.size(); ++n) {
    graph->origins.push_back({.name = "node" + std::to_string(n), .op_type = ""});
    graph->nodes[n].origin = static_cast<int32_t>(n);
  }
  CompileOptions options;
  options.device = *find_target("a100-40gb");
  options.stop_after = "plan";
  const auto c = compile_graph(std::move(*graph), options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  const auto edges = edge_verdicts(explained(**c), "node0", "node2");
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].verdict, "fused");
  EXPECT_EQ(edges[0].reason, "both are one expression");
}

TEST(VerdictTogether, AsksForAllThatLiesBetween) {
  const auto c = planned("a100-40gb", "none");
  const auto v = verdict_together(explained(*c), "y", "z");
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_EQ(v->verdict, "possible") << v->reason;
  for (const char* between : {"_y", "_p", "_q", "_z"}) EXPECT_THAT(v->reason, HasSubstr(between));
  EXPECT_THAT(v->reason, HasSubstr("4 kernels"));
  // Either way round.
  const auto back = verdict_together(explained(*c), "z", "y");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->reason, v->reason);
}

TEST(VerdictTogether, PricesWhatThePlannerDidNotTry) {
  const auto c = planned("a100-40gb", "none");
  const auto v = verdict_together(explained(*c), "s", "y");
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_EQ(v->verdict, "possible") << v->reason;
  EXPECT_THAT(v->reason, HasSubstr("one kernel takes"));
  EXPECT_THAT(v->notes.back(), HasSubstr("--plan dp"));
}

TEST(VerdictTogether, TellsFromWhichLaunchOnNodesThatNothingConnectsWouldPay) {
  const auto c = planned("a100-40gb", "greedy");
  const auto v = verdict_together(explained(*c), "s", "a");
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_EQ(v->verdict, "unprofitable") << v->reason;
  EXPECT_THAT(v->reason, HasSubstr("2 kernels (y in k"));
  EXPECT_THAT(v->notes.back(), HasSubstr("it would pay from a launch of"));
}

TEST(VerdictTogether, LeavesOpaqueStepsAlone) {
  const auto c = planned("a100-40gb", "greedy");
  const auto v = verdict_together(explained(*c), "y", "top_k");
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_EQ(v->verdict, "illegal");
  EXPECT_THAT(v->reason, HasSubstr("opaque step"));
}

TEST(VerdictTogether, RefusesNamesThatNoNodeHas) {
  const auto c = planned("a100-40gb", "greedy");
  const auto v = verdict_together(explained(*c), "s", "nobody");
  ASSERT_FALSE(v.ok());
  EXPECT_THAT(v.error().message, HasSubstr("no node 'nobody'"));
}

}  // namespace
}  // namespace weft
