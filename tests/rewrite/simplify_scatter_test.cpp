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

/// A grid of places as frameworks write that of a slice: a line for each axis, negative places
/// counted from the end. `rows` and `columns` are lines along the first and second axis.
std::string grid(const std::string& rows, const std::string& columns, const std::string& updates,
                 const std::string& rest = "") {
  return "(x: f32[2,5,7,3], u: f32" + updates + R"() {
  z0 = constant 0 : i64[]
  r = constant )" +
         rows + R"( : i64[2,1]
  q = constant )" +
         columns + R"( : i64[3]
  z = constant 1 : i64[]
  z1 = broadcast z, dims={} : i64[2,3,1]
  rs = broadcast r, dims={0,1} : i64[2,3]
  r1 = reshape rs : i64[2,3,1]
  qs = broadcast q, dims={1} : i64[2,3]
  q1 = reshape qs : i64[2,3,1]
  g = concat z1, r1, q1, axis=2 : i64[2,3,3]
  zero = broadcast z0, dims={} : i64[2,3,3]
  l = lt g, zero : bool[2,3,3]
  e = constant {2, 5, 7} : i64[3]
  es = broadcast e, dims={2} : i64[2,3,3]
  w = add g, es : i64[2,3,3]
  i = select l, w, g : i64[2,3,3]
  y = scatter_nd x, i, u)" +
         rest + R"( : f32[2,5,7,3]
} -> (y))";
}

/// The grid is never made: it may be far larger than its lines.
TEST(SimplifyScatter, PlacesOfAGridAreLines) {
  expect_places(grid("{1, 2}", "{-3, -2, -1}", "[2,3,3]"));  // a box
  expect_places(grid("{4, 0}", "{0, 2, 4}", "[2,3,3]"));
  expect_places(grid("{4, 4}", "{0, 6, 6}", "[2,3,3]"));  // the last of equal places stays
  expect_places(grid("{3, 1}", "{5, 2, 0}", "[2,3,3]", ", combines=true, combiner=max"));
}

/// The second axis of the tuples' grid is the first of the data.
TEST(SimplifyScatter, AxesOfAGridAreTurned) {
  expect_places(R"((x: f32[4,6], u: f32[3,2]) {
  r = iota axis=1 : i64[3,2,1]
  q = iota axis=0 : i64[3,2,1]
  g = concat r, q, axis=2 : i64[3,2,2]
  y = scatter_nd x, g, u : f32[4,6]
} -> (y))");
}

TEST(SimplifyScatter, WhatIsNoGridStays) {
  const auto stays = [](const std::string& text) {
    Graph graph = parsed(text);
    simplify(graph);
    return scatters(graph);
  };
  // Both places along one axis are a diagonal; sums of equal places are not one update each.
  EXPECT_TRUE(stays(R"((x: f32[4,6], u: f32[3]) {
  r = iota axis=0 : i64[3,1]
  g = concat r, r, axis=1 : i64[3,2]
  y = scatter_nd x, g, u : f32[4,6]
} -> (y))"));
  EXPECT_TRUE(stays(grid("{4, 4}", "{0, 2, 4}", "[2,3,3]", ", combines=true, combiner=sum")));
  EXPECT_TRUE(stays(grid("{4, 5}", "{0, 2, 4}", "[2,3,3]")));
  // A table of what each row takes would be as long as the first axis.
  EXPECT_TRUE(stays(R"((x: f32[5000000,6], u: f32[2,2]) {
  r = iota axis=0 : i64[2,2,1]
  q = iota axis=1 : i64[2,2,1]
  two = constant 2 : i64[]
  twos = broadcast two, dims={} : i64[2,2,1]
  c = mul q, twos : i64[2,2,1]
  g = concat r, c, axis=2 : i64[2,2,2]
  y = scatter_nd x, g, u : f32[5000000,6]
} -> (y))"));
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
