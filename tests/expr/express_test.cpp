
#include <gtest/gtest.h>

#include "tests/expr/expr_testing.h"
#include "tests/graph/random_graph.h"

namespace weft {
namespace {

/// The one statement of the program that makes `tensor`, as text.
std::string line_of(const TensorProgram& program, const std::string& tensor) {
  const std::string text = print(program);
  const size_t begin = text.find("  " + tensor + ": ");
  if (begin == std::string::npos) return "no " + tensor + " in\n" + text;
  return text.substr(begin + 2, text.find('\n', begin) - begin - 2);
}

/// Expresses the graph, checks what it computes, and gives the line of its output y.
std::string expression_of(const std::string& graph_text) {
  const Graph graph = parsed_graph(graph_text);
  const TensorProgram program = expressed(graph);
  const std::vector<HostTensor> inputs = random_inputs(graph, 3, false);
  const Result<std::vector<HostTensor>> expected = interpret(graph, inputs);
  EXPECT_TRUE(expected.ok());
  if (expected.ok()) expect_computes(program, inputs, *expected);
  return line_of(program, "y");
}

TEST(Express, Elementwise) {
  EXPECT_EQ(expression_of(R"((a: f32[2,3], b: f32[2,3]) {
    y = pow a, b : f32[2,3]
  } -> (y))"),
            "y: f32[2,3] = pow(a[d0, d1], b[d0, d1])");
  EXPECT_EQ(expression_of(R"((a: f32[2,3]) {
    c = constant splat 2.5 : f32[2,3]
    y = mul a, c : f32[2,3]
  } -> (y))"),
            "y: f32[2,3] = a[d0, d1] * 2.5");
  EXPECT_EQ(expression_of("(a: f32[3]) {\n y = convert a : i32[3]\n } -> (y)"),
            "y: i32[3] = i32(a[d0])");
  EXPECT_EQ(expression_of("() {\n y = iota axis=1 : f32[2,3]\n } -> (y)"), "y: f32[2,3] = f32(d1)");
}

TEST(Express, Movement) {
  EXPECT_EQ(expression_of(R"((a: f32[4,1]) {
    y = broadcast a, dims={1,2} : f32[3,4,5]
  } -> (y))"),
            "y: f32[3,4,5] = a[d1, 0]");
  EXPECT_EQ(expression_of(R"((a: f32[4,6]) {
    y = reshape a : f32[2,2,6]
  } -> (y))"),
            "y: f32[2,2,6] = a[d0 * 2 + d1, d2]");
  EXPECT_EQ(expression_of(R"((a: f32[4,6]) {
    y = slice a, start={3,1}, step={-1,2} : f32[3,2]
  } -> (y))"),
            "y: f32[3,2] = a[-d0 + 3, d1 * 2 + 1]");
  EXPECT_EQ(expression_of(R"((a: f32[4], f: f32[]) {
    y = pad a, f, low={1}, high={-1} : f32[4]
  } -> (y))"),
            "y: f32[4] = i64(d0 - 1) >= i64(0) ? a[d0 - 1] : f[]");
  EXPECT_EQ(expression_of(R"((a: f32[2], b: f32[3], c: f32[4]) {
    y = concat a, b, c, axis=0 : f32[9]
  } -> (y))"),
            "y: f32[9] = i64(d0) < i64(5) ? (i64(d0) < i64(2) ? a[d0] : b[d0 - 2]) : c[d0 - 5]");
}

TEST(Express, Gathers) {
  EXPECT_EQ(expression_of(R"((a: f32[5,6,7], i: i64[2,3]) {
    y = gather a, i, axis=1, batch_dims=0 : f32[5,2,3,7]
  } -> (y))"),
            "y: f32[5,2,3,7] = a[d0, i[d1, d2], d3]");
  EXPECT_EQ(expression_of(R"((a: f32[2,6], i: i32[2,3]) {
    y = gather_elements a, i, axis=1 : f32[2,3]
  } -> (y))"),
            "y: f32[2,3] = a[d0, i[d0, d1]]");
  EXPECT_EQ(expression_of(R"((a: f32[4,5,6], i: i64[3,2]) {
    y = gather_nd a, i, batch_dims=0 : f32[3,6]
  } -> (y))"),
            "y: f32[3,6] = a[i[d0, 0], i[d0, 1], d1]");
}

TEST(Express, Reductions) {
  EXPECT_EQ(expression_of(
                "(a: f16[3,4,5]) {\n y = reduce a, axes={0,2}, combiner=sum : f16[4]\n} -> (y)"),
            "y: f16[4] = sum[3, 5]:f32 f32(a[r0, d0, r1])");
  EXPECT_EQ(
      expression_of("(a: f32[3,1]) {\n y = reduce a, axes={1}, combiner=max : f32[3]\n} -> (y)"),
      "y: f32[3] = a[d0, 0]");
  EXPECT_EQ(
      expression_of("(a: f32[3,0]) {\n y = reduce a, axes={1}, combiner=max : f32[3]\n} -> (y)"),
      "y: f32[3] = -inf");
  EXPECT_EQ(expression_of("(a: f32[3,4]) {\n y = arg_reduce a, axis=0, combiner=arg_min, "
                          "last_on_ties=true : i64[4]\n} -> (y)"),
            "y: i64[4] = arg_min[3]:f32 last_on_ties a[r0, d0]");
  EXPECT_EQ(
      expression_of(
          "(a: f32[1,8]) {\n y = reduce_window a, window={1,3}, strides={1,2}, dilations={1,1}, "
          "low={0,1}, high={0,0}, combiner=max : f32[1,4]\n} -> (y)"),
      "y: f32[1,4] = max[3]:f32 i64(d1 * 2 + r0 - 1) >= i64(0) ? a[0, d1 * 2 + r0 - 1] : -inf");
}

TEST(Express, Contractions) {
  EXPECT_EQ(expression_of(R"((a: f16[2,3,4], b: f16[2,4,5]) {
    y = dot_general a, b, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={1} : f32[2,3,5]
  } -> (y))"),
            "y: f32[2,3,5] = contraction sum[4]:f32 f32(a[d0, d1, r0]) * f32(b[d0, r0, d2])");
  EXPECT_EQ(expression_of(R"((a: i8[3,4], b: i8[4,5]) {
    y = dot_general a, b, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : i32[3,5]
  } -> (y))"),
            "y: i32[3,5] = contraction sum[4]:i32 i32(a[d0, r0]) * i32(b[r0, d1])");
  EXPECT_EQ(
      expression_of(R"((x: f32[1,4,8], w: f32[6,2,3]) {
    y = convolution x, w, strides={1}, low={1}, high={0}, lhs_dilations={1}, rhs_dilations={2}, groups=2 : f32[1,6,5]
  } -> (y))"),
      "y: f32[1,6,5] = contraction sum[3, 2]:f32 (i64(d2 + r0 * 2 - 1) >= i64(0) ? x[d0, r1 + d1 "
      "floordiv 3 * 2, d2 + r0 * 2 - 1] : 0.0) * w[d1, r1, r0]");
  // A transposed convolution: every other position of the dilated input is a zero.
  EXPECT_EQ(expression_of(R"((x: f32[1,1,3], w: f32[1,1,2]) {
    y = convolution x, w, strides={1}, low={1}, high={1}, lhs_dilations={2}, rhs_dilations={1}, groups=1 : f32[1,1,6]
  } -> (y))"),
            "y: f32[1,1,6] = contraction sum[2]:f32 (i64(d2 + r0 - 1) >= i64(0) && i64(d2 + r0 - "
            "1) < i64(5) "
            "&& i64((d2 + r0 + 1) mod 2) == i64(0) ? x[d0, 0, (d2 + r0 + 1) floordiv 2 - 1] : 0.0) "
            "* w[d1, 0, r0]");
}

TEST(Express, OfAxesOneWideTheElementIsKnown) {
  // What stands under a condition has no place of its own, so that tiles can hold it.
  EXPECT_EQ(expression_of(R"((x: f32[3,1], f: f32[]) {
    y = pad x, f, low={0,1}, high={0,2} : f32[3,4]
  } -> (y))"),
            "y: f32[3,4] = i64(d1 - 1) >= i64(0) && i64(d1 - 1) < i64(1) ? x[d0, 0] : f[]");
  EXPECT_EQ(expression_of(R"((x: f32[2,1]) {
    y = reduce_window x, combiner=max, window={1,2}, strides={1,1}, low={0,1}, high={0,1}, dilations={1,1} : f32[2,2]
  } -> (y))"),
            "y: f32[2,2] = max[2]:f32 i64(d1 + r0 - 1) >= i64(0) && i64(d1 + r0 - 1) < i64(1) ? "
            "x[d0, 0] : -inf");
  EXPECT_EQ(
      expression_of(R"((x: f32[1,2,1], w: f32[1,2,2]) {
    y = convolution x, w, strides={1}, low={0}, high={1}, lhs_dilations={1}, rhs_dilations={1}, groups=1 : f32[1,1,1]
  } -> (y))"),
      "y: f32[1,1,1] = contraction sum[2, 2]:f32 (i64(r0) < i64(1) ? x[d0, r1, 0] : 0.0) * w[d1, "
      "r1, r0]");
}

TEST(Express, RegionsBecomePrograms) {
  const Graph graph = parsed_graph(R"((h: f32[2], xs: f32[5,2]) {
    last, all = scan h, xs, carry_count=1, scanned_count=1, x_reverse={true}, y_reverse={false} : f32[2], f32[5,2]
      region (h: f32[2], x: f32[2]) {
        n = add h, x : f32[2]
      } -> (n, y=n)
  } -> (last, all))");
  const TensorProgram program = expressed(graph);
  ASSERT_EQ(program.opaques.size(), 1u);
  EXPECT_EQ(line_of(*program.opaques[0].regions[0], "n"), "n: f32[2] = h[d0] + x[d0]");
  const std::vector<HostTensor> inputs = random_inputs(graph, 5, false);
  expect_computes(program, inputs, *interpret(graph, inputs));
}

}  // namespace
}  // namespace weft
