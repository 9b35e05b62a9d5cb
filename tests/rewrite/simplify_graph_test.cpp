#include "rewrite/simplify_graph.h"

#include "interp/interpreter.h"
#include "rewrite/remove_dead_nodes.h"
#include "tests/graph/random_graph.h"
#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

bool simplify(Graph& graph) {
  const bool changed = simplify_graph(graph);
  return remove_dead_nodes(graph) || changed;
}

TEST(SimplifyGraph, JoinsMovement) {
  expect_rewrite(simplify, R"((x: f32[2,3,4]) {
  a = transpose x, permutation={2,0,1} : f32[4,2,3]
  b = transpose a, permutation={1,2,0} : f32[2,3,4]
  c = reshape b : f32[6,4]
  d = reshape c : f32[24]
  e = slice d, start={2}, step={2} : f32[10]
  f = slice e, start={9}, step={-3} : f32[4]
} -> (f))",
                 R"((x: f32[2,3,4]) {
  v7 = reshape x : f32[24]
  v8 = slice v7, start={20}, step={-6} : f32[4]
} -> (f=v8))");
}

TEST(SimplifyGraph, TransposesOfUnitAxesAreReshapes) {
  expect_rewrite(simplify, R"((x: f32[1,3,4]) {
  y = transpose x, permutation={1,0,2} : f32[3,1,4]
} -> (y))",
                 R"((x: f32[1,3,4]) {
  v2 = reshape x : f32[3,1,4]
} -> (y=v2))");
  expect_unchanged(simplify, R"((x: f32[1,3,4]) {
  y = transpose x, permutation={2,0,1} : f32[4,1,3]
} -> (y))");
}

TEST(SimplifyGraph, BroadcastsLookThroughUnitAxes) {
  expect_rewrite(simplify, R"((x: f32[3]) {
  a = reshape x : f32[1,3,1]
  b = broadcast a, dims={0,1,2} : f32[2,3,4]
  c = broadcast x, dims={1} : f32[1,3]
} -> (b, c))",
                 R"((x: f32[3]) {
  v4 = broadcast x, dims={1} : f32[2,3,4]
  v5 = reshape x : f32[1,3]
} -> (b=v4, c=v5))");
}

TEST(SimplifyGraph, SlicesFindTheirPiece) {
  expect_rewrite(simplify, R"((x: f32[2,3], y: f32[2,5]) {
  a = concat x, y, axis=1 : f32[2,8]
  b = slice a, start={0,3}, step={1,1} : f32[2,5]
  c = slice a, start={1,7}, step={1,-2} : f32[1,3]
  d = slice a, start={0,2}, step={1,1} : f32[2,2]
} -> (b, c, d))",
                 R"((x: f32[2,3], y: f32[2,5]) {
  a = concat x, y, axis=1 : f32[2,8]
  v6 = slice y, start={1,4}, step={1,-2} : f32[1,3]
  d = slice a, start={0,2}, step={1,1} : f32[2,2]
} -> (b=y, c=v6, d))");
}

TEST(SimplifyGraph, PadsJoinCropAndVanish) {
  expect_rewrite(simplify, R"((x: f32[4]) {
  z = constant 0.5 : f32[]
  a = pad x, z, low={1}, high={0} : f32[5]
  b = pad a, z, low={0}, high={2} : f32[7]
  c = slice b, start={1}, step={1} : f32[4]
  d = pad x, z, low={-1}, high={-2} : f32[1]
} -> (b, c, d))",
                 R"((x: f32[4]) {
  z = constant 0.5 : f32[]
  v6 = pad x, z, low={1}, high={2} : f32[7]
  v7 = slice x, start={1}, step={1} : f32[1]
} -> (b=v6, c=x, d=v7))");
}

TEST(SimplifyGraph, GathersInStepAreSlices) {
  expect_rewrite(simplify, R"((x: f32[4,3]) {
  i = constant 2 : i64[]
  a = gather x, i, axis=0, batch_dims=0 : f32[3]
  j = constant {3, 1} : i64[2]
  b = gather x, j, axis=0, batch_dims=0 : f32[2,3]
} -> (a, b))",
                 R"((x: f32[4,3]) {
  v5 = slice x, start={2,0}, step={1,1} : f32[1,3]
  v6 = reshape v5 : f32[3]
  v7 = slice x, start={3,0}, step={-2,1} : f32[2,3]
} -> (a=v6, b=v7))");
  expect_unchanged(simplify, R"((x: f32[4,3]) {
  j = constant {0, 1, 3} : i64[3]
  b = gather x, j, axis=0, batch_dims=0 : f32[3,3]
} -> (b))");
}

TEST(SimplifyGraph, NeutralOperandsGo) {
  expect_rewrite(simplify, R"((x: f32[2], n: i32[2]) {
  one = constant splat 1 : f32[2]
  zero = constant splat 0 : i32[2]
  s = constant 1 : f32[]
  b = broadcast s, dims={} : f32[2]
  a = mul x, b : f32[2]
  c = div a, b : f32[2]
  d = neg c : f32[2]
  e = neg d : f32[2]
  t = constant 0 : i32[]
  z = broadcast t, dims={} : i32[2]
  f = add z, n : i32[2]
} -> (e, f))",
                 R"((x: f32[2], n: i32[2]) {
} -> (e=x, f=n))");
}

TEST(SimplifyGraph, KeepsTheSignOfZero) {
  const auto sum = [](const std::string& op, const std::string& zero) {
    return "(x: f32[]) {\n  z = constant " + zero + " : f32[]\n  y = " + op +
           " x, z : f32[]\n} -> (y)";
  };
  expect_unchanged(simplify, sum("add", "0"));
  expect_unchanged(simplify, sum("sub", "-0"));
  expect_rewrite(simplify, sum("add", "-0"), "(x: f32[]) {\n} -> (y=x)");
  expect_rewrite(simplify, sum("sub", "0"), "(x: f32[]) {\n} -> (y=x)");
}

TEST(SimplifyGraph, DivisionsAndPowersBecomeProductsWhenExact) {
  expect_rewrite(simplify, R"((x: f32[2]) {
  c = constant 8 : f32[]
  b = broadcast c, dims={} : f32[2]
  y = div x, b : f32[2]
  t = constant 2 : f32[]
  u = broadcast t, dims={} : f32[2]
  z = pow x, u : f32[2]
} -> (y, z))",
                 R"((x: f32[2]) {
  v7 = constant 0.125 : f32[]
  v8 = broadcast v7, dims={} : f32[2]
  v9 = mul x, v8 : f32[2]
  v10 = mul x, x : f32[2]
} -> (y=v9, z=v10))");
  expect_unchanged(simplify, R"((x: f32[], d: f64[]) {
  c = constant 3 : f32[]
  y = div x, c : f32[]
  t = constant 2 : f64[]
  z = pow d, t : f64[]
} -> (y, z))");
}

TEST(SimplifyGraph, Selects) {
  expect_rewrite(simplify, R"((c: bool[2], x: f32[2], y: f32[2]) {
  t = constant true : bool[]
  b = broadcast t, dims={} : bool[2]
  u = select b, x, y : f32[2]
  n = not c : bool[2]
  v = select n, u, y : f32[2]
} -> (v))",
                 R"((c: bool[2], x: f32[2], y: f32[2]) {
  v8 = select c, y, x : f32[2]
} -> (v=v8))");
}

TEST(SimplifyGraph, ConvertsJoinWhenTheMiddleLosesNothing) {
  expect_rewrite(simplify, R"((x: i8[2]) {
  a = convert x : i32[2]
  y = convert a : f32[2]
} -> (y))",
                 R"((x: i8[2]) {
  v3 = convert x : f32[2]
} -> (y=v3))");
  expect_unchanged(simplify, R"((x: i32[2]) {
  a = convert x : i8[2]
  y = convert a : i32[2]
} -> (y))");
}

/// A conversion that saturates clamps by itself; a tighter bound stays.
TEST(SimplifyGraph, ClampsBeforeConversionsGoWhereTheyBoundNothing) {
  const auto clamped = [](const std::string& high, const std::string& low) {
    return "(x: f32[2]) {\n  h = constant " + high +
           " : f32[]\n  hb = broadcast h, dims={} : f32[2]\n  m = min x, hb : f32[2]\n"
           "  l = constant " +
           low +
           " : f32[]\n  lb = broadcast l, dims={} : f32[2]\n  n = max m, lb : f32[2]\n"
           "  y = convert n : i8[2]\n} -> (y)";
  };
  expect_rewrite(simplify, clamped("127", "-128"),
                 "(x: f32[2]) {\n  y = convert x : i8[2]\n} -> (y)");
  expect_rewrite(simplify, clamped("126", "-128"),
                 "(x: f32[2]) {\n  h = constant 126 : f32[]\n  hb = broadcast h, dims={} : f32[2]\n"
                 "  m = min x, hb : f32[2]\n  y = convert m : i8[2]\n} -> (y)");
  expect_unchanged(simplify, clamped("127", "-127"));
}

TEST(SimplifyGraph, JoinsSlicesThatFollowEachOther) {
  expect_rewrite(simplify_graph, R"((x: f32[6,4], y: f32[6,4]) {
  a = slice x, start={0,1}, step={1,1} : f32[2,2]
  b = slice x, start={2,1}, step={1,1} : f32[3,2]
  c = slice x, start={5,2}, step={1,1} : f32[1,2]
  d = slice y, start={3,0}, step={-1,1} : f32[2,2]
  e = slice y, start={1,0}, step={-1,1} : f32[2,2]
  z = concat a, b, c, d, e, axis=0 : f32[10,2]
} -> (z))",
                 R"((x: f32[6,4], y: f32[6,4]) {
  a = slice x, start={0,1}, step={1,1} : f32[2,2]
  b = slice x, start={2,1}, step={1,1} : f32[3,2]
  c = slice x, start={5,2}, step={1,1} : f32[1,2]
  d = slice y, start={3,0}, step={-1,1} : f32[2,2]
  e = slice y, start={1,0}, step={-1,1} : f32[2,2]
  v8 = slice x, start={0,1}, step={1,1} : f32[5,2]
  v9 = slice y, start={3,0}, step={-1,1} : f32[4,2]
  v10 = concat v8, c, v9, axis=0 : f32[10,2]
} -> (z=v10))");
}

/// Of a stack the element of the last step is what the scan carries in the end, where a step stacks
/// what it carries; another element, and one of what is not carried, is left.
TEST(SimplifyGraph, TheLastOfAStackIsWhatIsCarried) {
  const auto sliced = [](const std::string& reversed, const std::string& at,
                         const std::string& stacked) {
    return "(h: f32[2], x: f32[5,2]) {\n"
           "  l, s = scan h, x, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={" +
           reversed +
           "} : f32[2], f32[5,2]\n    region (h: f32[2], x: f32[2]) {\n"
           "      n = sub x, h : f32[2]\n      m = neg n : f32[2]\n    } -> (n, y=" +
           stacked + ")\n  e = slice s, start={" + at +
           ",1}, step={1,1} : f32[1,1]\n  y = tanh e : f32[1,1]\n} -> (y)";
  };
  for (const auto& [reversed, at] : {std::pair("false", "4"), std::pair("true", "0")}) {
    Graph graph = parsed(sliced(reversed, at, "n"));
    EXPECT_TRUE(simplify_graph(graph));
    const std::string text = print(graph);
    EXPECT_NE(text.find("reshape l"), std::string::npos) << text;
    EXPECT_NE(text.find("start={0,1}"), std::string::npos) << text;
    const std::vector<HostTensor> inputs = random_inputs(graph, 3);
    EXPECT_EQ(difference(*interpret(graph, inputs),
                         *interpret(parsed(sliced(reversed, at, "n")), inputs)),
              "");
  }
  expect_unchanged(simplify_graph, sliced("false", "0", "n"));
  expect_unchanged(simplify_graph, sliced("true", "4", "n"));
  expect_unchanged(simplify_graph, sliced("false", "4", "m"));
}

}  // namespace
}  // namespace weft
