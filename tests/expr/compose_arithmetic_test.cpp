#include "expr/movement/compose_arithmetic.h"

#include <gtest/gtest.h>

#include "expr/movement/fold_movement.h"
#include "expr/movement/split_axes.h"
#include "tests/expr/expr_testing.h"
#include "tests/graph/random_graph.h"

namespace weft {
namespace {

/// The program of a graph, its movement folded and its arithmetic composed.
TensorProgram composed(const std::string& text, double recompute = 1) {
  TensorProgram program = expressed(parsed_graph(text));
  fold_movement(program);
  compose_arithmetic(program, recompute);
  return program;
}

std::string expression_of(const TensorProgram& program, const std::string& tensor) {
  const std::string text = print(program);
  const size_t begin = text.find("  " + tensor + ": ");
  if (begin == std::string::npos) return "";
  return text.substr(begin + 2, text.find('\n', begin) - begin - 2);
}

TEST(ComposeArithmetic, ReluStridedSliceAndPermutationAreOneExpression) {
  const TensorProgram program = composed(R"((x: f32[8,6]) {
    z = constant 0 : f32[]
    zb = broadcast z, dims={} : f32[8,6]
    r = max x, zb : f32[8,6]
    s = slice r, start={0,0}, step={2,1} : f32[4,6]
    e = exp s : f32[4,6]
    t = transpose e, permutation={1,0} : f32[6,4]
    y = neg t : f32[6,4]
  } -> (y))");
  EXPECT_EQ(expression_of(program, "y"), "y: f32[6,4] = neg(exp(max(x[d1 * 2, d0], 0.0)))");
  EXPECT_EQ(program.exprs.size(), 1U);
}

TEST(ComposeArithmetic, WhatAGroupHoldsStays) {
  // Read element by element: one kernel holds both, and keeps what it chooses.
  const std::string text = R"((x: f32[8,6], b: f32[6]) {
    e = exp x : f32[8,6]
    t = tanh b : f32[6]
    tb = broadcast t, dims={1} : f32[8,6]
    y = add e, tb : f32[8,6]
  } -> (y))";
  EXPECT_EQ(composed(text).exprs.size(), 3U);
}

/// The gates of a cell are parts of a product's columns, which a kernel of all parts makes.
TEST(ComposeArithmetic, WhatReadsPartsOfAProductStaysWhereProductsArePartedLater) {
  const std::string text = R"((x: f32[8,4], w: f32[4,32], b: f32[8,3]) {
    p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[8,32]
    i = slice p, start={0,0}, step={1,1} : f32[8,16]
    o = slice p, start={0,16}, step={1,1} : f32[8,16]
    t = tanh i : f32[8,16]
    s = sigmoid o : f32[8,16]
    h = mul t, s : f32[8,16]
    y = concat b, h, axis=1 : f32[8,19]
  } -> (y))";
  EXPECT_EQ(expression_of(composed(text), "h"), "");
  TensorProgram parts = expressed(parsed_graph(text));
  fold_movement(parts);
  compose_arithmetic(parts, 1, /*parts=*/true);
  EXPECT_NE(expression_of(parts, "h"), "");
}

TEST(ComposeArithmetic, TheFactorBoundsWhatIsComputedAgain) {
  // Windows of 3 by steps of 2 take every second element twice: 9 of 7.
  const std::string text = R"((x: f32[9]) {
    e = exp x : f32[9]
    a = slice e, start={0}, step={2} : f32[5]
    b = slice e, start={1}, step={2} : f32[4]
    c = slice e, start={2}, step={2} : f32[4]
    bc = add b, c : f32[4]
    ya = neg a : f32[5]
  } -> (ya, bc))";
  EXPECT_EQ(composed(text).exprs.size(), 3U);  // 13 of 9
  EXPECT_EQ(composed(text, 13.0 / 9).exprs.size(), 2U);
  EXPECT_EQ(composed(text, 0).exprs.size(), 3U);
}

TEST(ComposeArithmetic, PartsOfAJoinAreComputedOnceEach) {
  // The branches of the join's selects take four points each.
  const TensorProgram program = composed(R"((x: f32[4], w: f32[4]) {
    e = exp x : f32[4]
    t = tanh w : f32[4]
    c = concat e, t, axis=0 : f32[8]
    y = neg c : f32[8]
  } -> (y))");
  EXPECT_EQ(program.exprs.size(), 1U);
  EXPECT_EQ(expression_of(program, "y"),
            "y: f32[8] = neg(i64(d0) < i64(4) ? exp(x[d0]) : tanh(w[d0 - 4]))");
}

TEST(ComposeArithmetic, ContractionsOutputsAndEpiloguesStay) {
  // q goes to a product, o is an output, p ends the kernel of a sum.
  const TensorProgram program = composed(R"((x: f32[4,6], w: f32[6,4]) {
    q = exp x : f32[4,6]
    qt = transpose q, permutation={1,0} : f32[6,4]
    d = dot_general qt, w, lhs_batch={}, rhs_batch={}, lhs_contract={0}, rhs_contract={0} : f32[4,4]
    o = tanh w : f32[6,4]
    ot = transpose o, permutation={1,0} : f32[4,6]
    yo = neg ot : f32[4,6]
    s = reduce x, axes={1}, combiner=sum : f32[4]
    p = exp s : f32[4]
    ps = slice p, start={2}, step={1} : f32[2]
    yp = neg ps : f32[2]
  } -> (d, o, yo, yp))");
  EXPECT_EQ(program.exprs.size(), 7U) << print(program);
}

/// Convolutions keep their channels whole, which a normalisation by groups has in parts: what it
/// ends with is computed where the next convolution's channels are.
TEST(ComposeArithmetic, ReachesOverAxesThatReadersKeepWhole) {
  const std::string window =
      ", strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 "
      ": f32[1,6,4,4]\n";
  const Graph graph = parsed_graph(
      "(x: f32[1,3,4,4], w: f32[6,3,3,3], k: f32[6], v: f32[6,6,3,3]) {\n  a = convolution x, w" +
      window + R"(  g = reshape a : f32[1,2,48]
  s = reduce g, axes={2}, combiner=sum : f32[1,2]
  sb = broadcast s, dims={0,1} : f32[1,2,48]
  d = sub g, sb : f32[1,2,48]
  q = mul d, d : f32[1,2,48]
  m = reduce q, axes={2}, combiner=max : f32[1,2]
  mb = broadcast m, dims={0,1} : f32[1,2,48]
  n = div d, mb : f32[1,2,48]
  c = reshape n : f32[1,6,4,4]
  kb = broadcast k, dims={1} : f32[1,6,4,4]
  z = mul c, kb : f32[1,6,4,4]
  y = convolution z, v)" +
      window + "} -> (y)");
  TensorProgram program = expressed(graph);
  fold_movement(program);
  compose_arithmetic(program, 2);
  split_axes(program);
  EXPECT_NE(expression_of(program, "z").find("n["), std::string::npos) << print(program);
  EXPECT_TRUE(compose_across_splits(program, 2));
  EXPECT_EQ(expression_of(program, "z"),
            "z: f32[1,6,4,4] = (a[0, d1, d2, d3] - s[0, d1 floordiv 3]) / m[0, d1 floordiv 3] * "
            "k[d1]");
  EXPECT_EQ(expression_of(program, "n"), "");
  EXPECT_EQ(expression_of(program, "d"), "") << "nor is the difference stored for the maximum";
  const std::vector<HostTensor> inputs = random_inputs(graph, 5, false);
  expect_computes(program, inputs, *interpret(graph, inputs));
  EXPECT_FALSE(compose_across_splits(program, 2));
}

/// A product's bias stays with it: in its place a reader would read the product.
TEST(ComposeArithmetic, EpiloguesStayBehindSplits) {
  TensorProgram program =
      expressed(parsed_graph(R"((x: f32[2,3,8], u: f32[8,16], b: f32[16], v: f32[6,6,3,3]) {
    p = dot_general x, u, lhs_batch={}, rhs_batch={}, lhs_contract={2}, rhs_contract={0} : f32[2,3,16]
    bb = broadcast b, dims={2} : f32[2,3,16]
    q = add p, bb : f32[2,3,16]
    c = reshape q : f32[1,6,4,4]
    t = tanh c : f32[1,6,4,4]
    y = convolution t, v, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,6,4,4]
  } -> (y))"));
  fold_movement(program);
  split_axes(program);
  EXPECT_NE(expression_of(program, "t").find("floordiv"), std::string::npos) << print(program);
  EXPECT_FALSE(compose_across_splits(program, 2)) << print(program);
}

TEST(ComposeArithmetic, KeepsTheOriginsOfBoth) {
  Graph graph = parsed_graph(R"((x: f32[4,6]) {
    e = exp x : f32[4,6]
    t = transpose e, permutation={1,0} : f32[6,4]
    y = neg t : f32[6,4]
  } -> (y))");
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    graph.origins.push_back({"node" + std::to_string(i), "op"});
    graph.nodes[i].origin = static_cast<int32_t>(i);
  }
  TensorProgram program = expressed(graph);
  fold_movement(program);
  ASSERT_TRUE(compose_arithmetic(program, 1));
  ASSERT_EQ(program.exprs.size(), 1U);
  EXPECT_EQ(program.exprs[0].origins, (std::vector<int32_t>{0, 2}));
}

/// Random programs before and after: every bit is the same.
void expect_same_bits(uint64_t first, uint64_t last, const RandomGraphOptions& options) {
  int changed = 0;
  for (uint64_t seed = first; seed < last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_graph(seed, options);
    TensorProgram program = expressed(graph);
    fold_movement(program);
    const std::vector<HostTensor> inputs = random_inputs(graph, seed + 7, options.special_values);
    const Result<std::vector<HostTensor>> before = evaluate(program, inputs);
    ASSERT_TRUE(before.ok()) << before.error().message;
    SCOPED_TRACE(print(program));
    if (!compose_arithmetic(program, seed % 3 == 0 ? 1 : 4)) continue;
    ++changed;
    const Status status = verify_tensor_program(program);
    ASSERT_TRUE(status.ok()) << status.error().message << "\n" << print(program);
    const Result<std::vector<HostTensor>> after = evaluate(program, inputs);
    ASSERT_TRUE(after.ok()) << after.error().message << "\n" << print(program);
    EXPECT_EQ(difference(*before, *after), "") << print(program);
    expect_round_trip(program);
  }
  EXPECT_GT(changed, static_cast<int>(last - first) / 25);
}

TEST(ComposeArithmetic, KeepsEveryBitOfRandomPrograms) {
  expect_same_bits(0, 1000, {.nodes = 30, .control_flow = false});
}

TEST(ComposeArithmetic, KeepsTheRoundingsOfHalves) {
  expect_same_bits(
      4000, 4300,
      {.nodes = 20, .control_flow = false, .types = {DType::kF16, DType::kBF16, DType::kF32}});
}

}  // namespace
}  // namespace weft
