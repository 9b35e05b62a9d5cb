#include "rewrite/fold_constants.h"

#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

std::function<bool(Graph&)> fold_constants_up_to(int64_t bytes) {
  return [bytes](Graph& graph) { return fold_constants(graph, bytes); };
}

TEST(FoldConstants, FoldsChains) {
  Graph graph = parsed(R"((x: f32[2]) {
  a = constant {1, 2} : f32[2]
  b = constant {10, 30} : f32[2]
  c = add a, b : f32[2]
  d = neg c : f32[2]
  y = mul x, d : f32[2]
} -> (y))");
  EXPECT_TRUE(fold_constants(graph, 1024));
  ASSERT_EQ(graph.nodes.back().op, GraphOp::kElementwise);
  const Node& factor = graph.nodes[graph.nodes.size() - 2];
  ASSERT_EQ(factor.op, GraphOp::kConstant);
  EXPECT_EQ(std::get<ConstantAttrs>(factor.attrs).value.at_double(1), -32);
}

TEST(FoldConstants, LeavesBroadcastsThatGrow) {
  expect_unchanged(fold_constants_up_to(1024), R"((x: f32[1024]) {
  c = constant 2 : f32[]
  b = broadcast c, dims={} : f32[1024]
  y = mul x, b : f32[1024]
} -> (y))");
  expect_unchanged(fold_constants_up_to(1024), R"(() {
  c = constant {2, 3} : f32[2]
  b = broadcast c, dims={1} : f32[1024,2]
} -> (b))");
  expect_unchanged(fold_constants_up_to(1024), R"(() {
  i = iota axis=0 : i64[4]
} -> (i))");
}

/// Weights that are normed: what is repeated is no constant of its own, but what reads it is. What
/// would be larger than all that it is made of stays.
TEST(FoldConstants, FoldsWhatReadsBroadcastsThatGrow) {
  Graph graph = parsed(R"((x: f32[2,3]) {
  w = constant {1, 2, 3, 4, 5, 6} : f32[2,3]
  s = constant {10, 20} : f32[2]
  t = constant {7, 8, 9} : f32[3]
  b = broadcast s, dims={0} : f32[2,3]
  normed = mul w, b : f32[2,3]
  y = mul x, normed : f32[2,3]
  c = broadcast t, dims={1} : f32[2,3]
  sums = add b, c : f32[2,3]
  z = mul x, sums : f32[2,3]
} -> (y, z))");
  EXPECT_TRUE(fold_constants(graph, 8));
  const auto factor = [&](size_t output) -> const Node& {
    const Node* product = nullptr;
    for (const Node& node : graph.nodes) {
      if (node.results[0] == graph.outputs[output]) product = &node;
    }
    for (const Node& node : graph.nodes) {
      if (node.results[0] == product->operands[1]) return node;
    }
    return *product;
  };
  ASSERT_EQ(factor(0).op, GraphOp::kConstant);
  EXPECT_EQ(std::get<ConstantAttrs>(factor(0).attrs).value.at_double(5), 120);
  EXPECT_EQ(factor(1).op, GraphOp::kElementwise);
}

/// Frequencies times positions, of which a sine is taken, and weights: both are stored. A sum
/// that a product of elements reads is made again.
TEST(FoldConstants, StoresWhatIsDearToMakeOfLittle) {
  Graph graph = parsed(R"((x: f32[2,128], y: f32[128,128]) {
  place = iota axis=0 : f32[128]
  rows = broadcast place, dims={0} : f32[128,128]
  columns = broadcast place, dims={1} : f32[128,128]
  angles = mul rows, columns : f32[128,128]
  sines = sin angles : f32[128,128]
  p = mul y, sines : f32[128,128]
  weights = sub rows, columns : f32[128,128]
  q = dot_general x, weights, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f32[2,128]
  sums = add rows, columns : f32[128,128]
  r = mul y, sums : f32[128,128]
} -> (p, q, r))");
  EXPECT_TRUE(fold_constants(graph, 1024));
  const auto maker = [&](int output, size_t operand) {
    const ValueId result = graph.outputs[static_cast<size_t>(output)];
    const auto makes = [](ValueId v) { return [v](const Node& n) { return n.results[0] == v; }; };
    const auto reader = std::ranges::find_if(graph.nodes, makes(result));
    return std::ranges::find_if(graph.nodes, makes(reader->operands[operand]))->op;
  };
  EXPECT_EQ(maker(0, 1), GraphOp::kConstant);
  EXPECT_EQ(maker(1, 1), GraphOp::kConstant);
  EXPECT_EQ(maker(2, 1), GraphOp::kElementwise);
}

/// A small result of a value that no machine holds.
TEST(FoldConstants, LeavesReductionsOfHugeBroadcasts) {
  expect_unchanged(fold_constants_up_to(1024), R"((x: f32[2]) {
  c = constant {2, 3} : f32[2]
  b = broadcast c, dims={1} : f32[17179869184,2]
  s = reduce b, axes={0}, combiner=max : f32[2]
  y = mul x, s : f32[2]
} -> (y))");
}

TEST(FoldConstants, ComputesOnOneElementOfBroadcasts) {
  expect_rewrite(fold_constants_up_to(16), R"((x: f32[4096]) {
  a = constant 2 : f32[]
  b = broadcast a, dims={} : f32[64,64]
  c = sqrt b : f32[64,64]
  d = mul c, c : f32[64,64]
  e = transpose d, permutation={1,0} : f32[64,64]
} -> (x, e))",
                 R"((x: f32[4096]) {
  a = constant 2 : f32[]
  b = broadcast a, dims={} : f32[64,64]
  v6 = constant 1.4142135 : f32[]
  v7 = broadcast v6, dims={} : f32[64,64]
  v8 = constant 1.9999999 : f32[]
  v9 = broadcast v8, dims={} : f32[64,64]
  v10 = constant 1.9999999 : f32[]
  v11 = broadcast v10, dims={} : f32[64,64]
} -> (x, e=v11))");
}

/// How long a product takes is what its elements add up, not what its operands have.
TEST(FoldConstants, ProductsThatAreShortAreComputed) {
  const auto text = [](const std::string& depth) {
    return "() {\n  a = iota axis=0 : f32[200," + depth + "]\n  b = iota axis=1 : f32[" + depth +
           ",200]\n  y = dot_general a, b, lhs_batch={}, rhs_batch={}, lhs_contract={1}, "
           "rhs_contract={0} : f32[200,200]\n} -> (y)";
  };
  Graph folded = parsed(text("200"));
  EXPECT_TRUE(fold_constants(folded, 1 << 20));
  EXPECT_EQ(folded.nodes.back().op, GraphOp::kConstant) << print(folded);
  expect_unchanged(fold_constants_up_to(1 << 20), text("30000"));
}

TEST(FoldConstants, UniformResultsBecomeBroadcasts) {
  expect_rewrite(fold_constants_up_to(1024), R"(() {
  a = constant {1, 2, 3} : i32[3]
  b = constant {3, 2, 1} : i32[3]
  c = add a, b : i32[3]
} -> (c))",
                 R"(() {
  a = constant {1, 2, 3} : i32[3]
  b = constant {3, 2, 1} : i32[3]
  v3 = constant 4 : i32[]
  v4 = broadcast v3, dims={} : i32[3]
} -> (c=v4))");
}

TEST(FoldConstants, LeavesBytesThatAreMultipliedByBytes) {
  const auto keeping = [](Graph& graph) { return fold_constants(graph, 1024, true); };
  const std::string text = R"((x: u8[2,4]) {
  w = constant {1, 2, 3, 4} : i8[4,1]
  xf = convert x : f32[2,4]
  wf = convert w : f32[4,1]
  y = dot_general xf, wf, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[2,1]
} -> (y))";
  expect_unchanged(keeping, text);
  Graph folded = parsed(text);
  EXPECT_TRUE(fold_constants(folded, 1024));
  // The other factor is no byte.
  std::string wide = text;
  wide.replace(wide.find("u8"), 2, "i16");
  Graph graph = parsed(wide);
  EXPECT_TRUE(keeping(graph));
}

/// Weights of a recurrence on a CPU are float32 once and for all; what is read once stays short.
TEST(FoldConstants, WidensWhatLoopsRead) {
  const std::string text = R"((x: f32[4,2], h: f32[2]) {
  w = constant {1, 2, 3, 4} : f16[2,2]
  wide = convert w : f32[2,2]
  turned = transpose wide, permutation={1,0} : f32[2,2]
  y = scan h, x, turned, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={} : f32[2]
    region (a: f32[2], b: f32[2], v: f32[2,2]) {
      p = dot_general a, v, lhs_batch={}, rhs_batch={}, lhs_contract={0}, rhs_contract={0} : f32[2]
      s = add p, b : f32[2]
    } -> (s)
  z = dot_general x, wide, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[4,2]
} -> (y, z))";
  Graph graph = parsed(text);
  EXPECT_TRUE(fold_constants(graph, 8, true));
  EXPECT_NE(print(graph).find("constant {1, 3, 2, 4} : f32[2,2]"), std::string::npos)
      << print(graph);
  std::string once = text;
  once.replace(once.find("x, turned"), 9, "x, u");
  once.replace(once.find("x: f32"), 6, "u: f32[2,2], x: f32");
  expect_unchanged([](Graph& g) { return fold_constants(g, 8, true); }, once);
  expect_unchanged([](Graph& g) { return fold_constants(g, 8); }, text);
}

TEST(FoldConstants, ReachesIntoRegionsButRunsNoLoops) {
  Graph graph = parsed(R"((c: bool[], x: f32[]) {
  r = if c, x : f32[]
    region (a: f32[]) {
      t = constant 2 : f32[]
      s = neg t : f32[]
      u = add a, s : f32[]
    } -> (u)
    region (a: f32[]) {
    } -> (a)
  i = constant 1 : i64[]
  w = while i, carry_count=1 : i64[]
    region (k: i64[]) {
      go = constant true : bool[]
    } -> (go)
    region (k: i64[]) {
    } -> (k)
} -> (r, w))");
  EXPECT_TRUE(fold_constants(graph, 1024));
  EXPECT_EQ(graph.nodes[0].regions[0]->nodes[1].op, GraphOp::kConstant);
  EXPECT_EQ(graph.nodes.back().op, GraphOp::kWhile);
}

}  // namespace
}  // namespace weft
