#include "interp/interpreter.h"
#include "rewrite/remove_dead_nodes.h"
#include "rewrite/simplify_graph.h"
#include "tests/graph/random_graph.h"
#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

bool simplify(Graph& graph) {
  const bool changed = simplify_graph(graph);
  return remove_dead_nodes(graph) || changed;
}

bool scatters(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    return node.op == GraphOp::kScatterNd || node.op == GraphOp::kScatterElements;
  });
}

/// Simplified, the graph has no scatter and gives what it gave.
void expect_places(const std::string& text) {
  Graph graph = parsed(text);
  const std::vector<HostTensor> inputs = random_inputs(graph, 7);
  const auto before = interpret(graph, inputs);
  ASSERT_TRUE(before.ok()) << text;
  EXPECT_TRUE(simplify(graph));
  EXPECT_FALSE(scatters(graph)) << print(graph);
  const auto after = interpret(graph, inputs);
  ASSERT_TRUE(after.ok()) << print(graph);
  EXPECT_EQ(difference(*before, *after), "") << print(graph);
}

TEST(SimplifyScatter, UpdatesThatFillABoxAreAPiece) {
  expect_rewrite(simplify, R"((x: f32[5,3], u: f32[2,3]) {
  i = constant {1, 2} : i64[2,1]
  y = scatter_nd x, i, u : f32[5,3]
} -> (y))",
                 R"((x: f32[5,3], u: f32[2,3]) {
  v4 = slice x, start={0,0}, step={1,1} : f32[1,3]
  v6 = slice x, start={3,0}, step={1,1} : f32[2,3]
  v7 = concat v4, u, v6, axis=0 : f32[5,3]
} -> (y=v7))");
  expect_places(R"((x: f32[4,6,2], u: f32[2,3,2]) {
  i = constant {1, 2, 1, 3, 1, 4, 2, 2, 2, 3, 2, 4} : i64[2,3,2]
  y = scatter_nd x, i, u, combines=true, combiner=sum : f32[4,6,2]
} -> (y))");
}

TEST(SimplifyScatter, OtherPlacesAreATable) {
  expect_places(R"((x: f32[5,3], u: f32[3,3]) {
  i = constant {4, 0, 4} : i64[3,1]
  y = scatter_nd x, i, u : f32[5,3]
} -> (y))");
  expect_places(R"((x: f32[3,4], u: f32[2,2]) {
  i = constant {3, 1, 0, 2} : i64[2,2]
  y = scatter_elements x, i, u, axis=1, combines=true, combiner=prod : f32[3,4]
} -> (y))");
}

TEST(SimplifyScatter, RowsByOneIndexEachAreSlices) {
  expect_rewrite(simplify, R"((x: f32[5,3], i: i64[4,1], u: f32[4,3]) {
  zero = constant {0} : i64[]
  zeros = broadcast zero, dims={} : i64[4,3]
  all = broadcast i, dims={0,1} : i64[4,3]
  at = max all, zeros : i64[4,3]
  y = scatter_elements x, at, u, axis=0, combines=true, combiner=sum : f32[5,3]
} -> (y))",
                 R"((x: f32[5,3], i: i64[4,1], u: f32[4,3]) {
  zero = constant {0} : i64[]
  zeros = broadcast zero, dims={} : i64[4,3]
  all = broadcast i, dims={0,1} : i64[4,3]
  at = max all, zeros : i64[4,3]
  v8 = slice at, start={0,0}, step={1,1} : i64[4,1]
  v9 = scatter_nd x, v8, u, axis=0, combines=true, combiner=sum : f32[5,3]
} -> (y=v9))");
  expect_unchanged(simplify, R"((x: f32[5,3], i: i64[1,3], u: f32[4,3]) {
  all = broadcast i, dims={0,1} : i64[4,3]
  y = scatter_elements x, all, u, axis=0 : f32[5,3]
} -> (y))");
  expect_unchanged(simplify, R"((x: f32[5,3], i: i64[4,1], u: f32[4,2]) {
  all = broadcast i, dims={0,1} : i64[4,2]
  y = scatter_elements x, all, u, axis=0 : f32[5,3]
} -> (y))");
}

TEST(SimplifyScatter, WhatMeetsAtAPlaceOrLiesOutsideStays) {
  expect_unchanged(simplify, R"((x: f32[5], u: f32[2]) {
  i = constant {3, 3} : i64[2]
  y = scatter_elements x, i, u, axis=0, combines=true, combiner=sum : f32[5]
} -> (y))");
  expect_unchanged(simplify, R"((x: f32[5], u: f32[2]) {
  i = constant {3, 5} : i64[2]
  y = scatter_elements x, i, u, axis=0 : f32[5]
} -> (y))");
}

}  // namespace
}  // namespace weft
