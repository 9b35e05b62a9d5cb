#include "interp/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace weft {
namespace {

using ::testing::ElementsAre;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

HostTensor tensor(DType type, Shape shape, const std::vector<double>& values) {
  HostTensor result(type, std::move(shape));
  EXPECT_EQ(static_cast<size_t>(result.size()), values.size());
  for (size_t i = 0; i < values.size(); ++i) result.set_double(static_cast<int64_t>(i), values[i]);
  return result;
}

/// n values that differ, of both signs and none of them 0.
HostTensor ramp(Shape shape, double scale = 0.25, DType type = DType::kF32) {
  HostTensor result(type, std::move(shape));
  for (int64_t i = 0; i < result.size(); ++i) {
    result.set_double(i, scale * static_cast<double>(i % 2 == 0 ? i + 1 : -i - 1));
  }
  return result;
}

std::vector<double> values_of(const HostTensor& x) {
  std::vector<double> result;
  for (int64_t i = 0; i < x.size(); ++i) result.push_back(x.at_double(i));
  return result;
}

/// The values of the graph's first output.
std::vector<double> run(const std::string& text, const std::vector<HostTensor>& inputs) {
  const Result<Graph> graph = parse_graph(text);
  if (!graph.ok()) {
    ADD_FAILURE() << graph.error().message;
    return {};
  }
  const Status status = verify_graph(*graph);
  EXPECT_TRUE(status.ok()) << status.error().message;
  const Result<std::vector<HostTensor>> outputs = interpret(*graph, inputs);
  if (!outputs.ok()) {
    ADD_FAILURE() << outputs.error().message;
    return {};
  }
  return values_of((*outputs)[0]);
}

TEST(Interpreter, ElementwiseRoundsToItsType) {
  const HostTensor x = tensor(DType::kF16, {2}, {1, 2048});
  const HostTensor y = tensor(DType::kF16, {2}, {1.0 / 1024 / 2, 1});
  EXPECT_THAT(run("(x: f16[2], y: f16[2]) { z = add x, y : f16[2] } -> (z)", {x, y}),
              ElementsAre(1, 2048));  // both ties, to even
}

TEST(Interpreter, IntegersWrapAndNeverTrap) {
  const HostTensor x = tensor(DType::kI8, {4}, {127, -128, -128, 5});
  const HostTensor y = tensor(DType::kI8, {4}, {1, -1, 3, 0});
  EXPECT_THAT(run("(x: i8[4], y: i8[4]) { z = add x, y : i8[4] } -> (z)", {x, y}),
              ElementsAre(-128, 127, -125, 5));
  EXPECT_THAT(run("(x: i8[4], y: i8[4]) { z = div x, y : i8[4] } -> (z)", {x, y}),
              ElementsAre(127, -128, -42, 0));
  EXPECT_THAT(run("(x: i8[4], y: i8[4]) { z = rem x, y : i8[4] } -> (z)", {x, y}),
              ElementsAre(0, 0, -2, 0));
  EXPECT_THAT(run("(x: i8[4], y: i8[4]) { z = shl y, x : i8[4] } -> (z)", {x, y}),
              ElementsAre(0, 0, 0, 0));
}

TEST(Interpreter, ConvertTruncatesAndSaturates) {
  const HostTensor x = tensor(DType::kF32, {6}, {-1.9, 1.9, 300, -300, kNan, kInf});
  EXPECT_THAT(run("(x: f32[6]) { z = convert x : i8[6] } -> (z)", {x}),
              ElementsAre(-1, 1, 127, -128, 0, 127));
  EXPECT_THAT(run("(x: f32[6]) { z = convert x : u8[6] } -> (z)", {x}),
              ElementsAre(0, 1, 255, 0, 0, 255));
  EXPECT_THAT(run("(x: f32[6]) { z = convert x : bool[6] } -> (z)", {x}),
              ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST(Interpreter, MinAndMaxKeepNan) {
  const HostTensor x = tensor(DType::kF32, {3}, {kNan, 2, -3});
  const HostTensor y = tensor(DType::kF32, {3}, {1, kNan, 4});
  const std::vector<double> z =
      run("(x: f32[3], y: f32[3]) { z = max x, y : f32[3] } -> (z)", {x, y});
  EXPECT_TRUE(std::isnan(z[0]) && std::isnan(z[1]));
  EXPECT_EQ(z[2], 4);
}

TEST(Interpreter, MovementOps) {
  const HostTensor x = tensor(DType::kI32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(run("(x: i32[2,3]) { y = transpose x, permutation={1,0} : i32[3,2] } -> (y)", {x}),
              ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(
      run("(x: i32[2,3]) { y = slice x, start={1,2}, step={-1,-2} : i32[2,2] } -> (y)", {x}),
      ElementsAre(6, 4, 3, 1));
  EXPECT_THAT(run("(x: i32[2,3]) { c = constant 9 : i32[] "
                  "y = pad x, c, low={0,-1}, high={1,1} : i32[3,3] } -> (y)",
                  {x}),
              ElementsAre(2, 3, 9, 5, 6, 9, 9, 9, 9));
  EXPECT_THAT(run("(x: i32[2,3]) { y = concat x, x, axis=1 : i32[2,6] } -> (y)", {x}),
              ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
  const HostTensor column = tensor(DType::kI32, {2, 1}, {7, 8});
  EXPECT_THAT(run("(x: i32[2,1]) { y = broadcast x, dims={1,2} : i32[2,2,2] } -> (y)", {column}),
              ElementsAre(7, 7, 8, 8, 7, 7, 8, 8));
  EXPECT_THAT(run("() { y = iota axis=1 : f32[2,3] } -> (y)", {}), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(Interpreter, ReductionsAccumulateInDouble) {
  const HostTensor x = tensor(DType::kF32, {2, 3}, {1e8, 1, -1e8, 3, 4, 5});
  EXPECT_THAT(run("(x: f32[2,3]) { y = reduce x, axes={1}, combiner=sum : f32[2] } -> (y)", {x}),
              ElementsAre(1, 12));
  EXPECT_THAT(run("(x: f32[2,3]) { y = reduce x, axes={0}, combiner=max : f32[3] } -> (y)", {x}),
              ElementsAre(1e8, 4, 5));
  EXPECT_THAT(run("(x: f32[2,3]) { y = cumulative x, axis=1, combiner=sum, exclusive=true, "
                  "reverse=true : f32[2,3] } -> (y)",
                  {x}),
              ElementsAre(-1e8, -1e8, 0, 9, 5, 0));
  const HostTensor none = tensor(DType::kF32, {2, 0}, {});
  EXPECT_THAT(run("(x: f32[2,0]) { y = reduce x, axes={1}, combiner=max : f32[2] } -> (y)", {none}),
              ElementsAre(-kInf, -kInf));
}

TEST(Interpreter, ArgReductionTakesNanAndTheAskedTie) {
  const HostTensor x = tensor(DType::kF32, {3, 4}, {2, 7, 7, 1, 3, kNan, 9, kNan, 5, 5, 5, 5});
  EXPECT_THAT(
      run("(x: f32[3,4]) { y = arg_reduce x, axis=1, combiner=arg_max : i64[3] } -> (y)", {x}),
      ElementsAre(1, 1, 0));
  EXPECT_THAT(run("(x: f32[3,4]) { y = arg_reduce x, axis=1, combiner=arg_min, last_on_ties=true "
                  ": i64[3] } -> (y)",
                  {x}),
              ElementsAre(3, 3, 3));
}

TEST(Interpreter, WindowsIgnorePadding) {
  const HostTensor x = tensor(DType::kF32, {1, 4}, {-1, -2, -3, -4});
  EXPECT_THAT(run("(x: f32[1,4]) { y = reduce_window x, window={1,3}, strides={1,2}, "
                  "dilations={1,1}, low={0,1}, high={0,2}, combiner=max : f32[1,3] } -> (y)",
                  {x}),
              ElementsAre(-1, -2, -4));
  EXPECT_THAT(run("(x: f32[1,4]) { y = reduce_window x, window={1,2}, strides={1,1}, "
                  "dilations={1,2}, low={0,1}, high={0,0}, combiner=sum : f32[1,3] } -> (y)",
                  {x}),
              ElementsAre(-2, -4, -6));
}

TEST(Interpreter, DotGeneralMatchesItsDefinition) {
  const HostTensor a = ramp({2, 3, 5});        // [batch, k, m]
  const HostTensor b = ramp({7, 2, 3}, -0.5);  // [n, batch, k]
  const std::vector<double> c =
      run("(a: f32[2,3,5], b: f32[7,2,3]) { c = dot_general a, b, lhs_batch={0}, rhs_batch={1}, "
          "lhs_contract={1}, rhs_contract={2} : f32[2,5,7] } -> (c)",
          {a, b});
  ASSERT_EQ(c.size(), 70U);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t m = 0; m < 5; ++m) {
      for (int64_t n = 0; n < 7; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < 3; ++k) {
          sum += a.at_double((i * 3 + k) * 5 + m) * b.at_double((n * 2 + i) * 3 + k);
        }
        EXPECT_EQ(c[static_cast<size_t>((i * 5 + m) * 7 + n)], sum);
      }
    }
  }
}

TEST(Interpreter, IntegerDotAccumulatesInTheResultType) {
  const HostTensor a = tensor(DType::kI8, {1, 3}, {127, 127, -128});
  const HostTensor b = tensor(DType::kI8, {3, 1}, {127, 127, 127});
  const std::string dot = "c = dot_general a, b, lhs_contract={1}, rhs_contract={0} : ";
  EXPECT_THAT(run("(a: i8[1,3], b: i8[3,1]) { " + dot + "i32[1,1] } -> (c)", {a, b}),
              ElementsAre(127 * 126));
  EXPECT_THAT(run("(a: i8[1,3], b: i8[3,1]) { " + dot + "i8[1,1] } -> (c)", {a, b}),
              ElementsAre(-126));
}

struct ConvolutionCase {
  int64_t stride, low, high, x_dilation, w_dilation, groups;
};

class ConvolutionTest : public ::testing::TestWithParam<ConvolutionCase> {};

TEST_P(ConvolutionTest, MatchesItsDefinition) {
  const ConvolutionCase& p = GetParam();
  const HostTensor x = ramp({2, 4, 5, 6});
  const HostTensor w = ramp({6, 4 / p.groups, 2, 3}, -0.125);
  ConvolutionAttrs attrs{{p.stride, 1},     {p.low, 1},        {p.high, 0},
                         {p.x_dilation, 1}, {1, p.w_dilation}, p.groups};
  Graph graph;
  const ValueId vx = graph.add_input("x", {DType::kF32, x.shape()});
  const ValueId vw = graph.add_input("w", {DType::kF32, w.shape()});
  const Result<ValueId> vy =
      graph.add1(GraphOp::kConvolution, attrs, {vx, vw}, {DType::kF32, {}}, "y");
  ASSERT_TRUE(vy.ok()) << vy.error().message;
  graph.add_output(*vy, "y");
  const HostTensor y = (*interpret(graph, {x, w}))[0];
  ASSERT_GT(y.size(), 0);
  const int64_t height = y.shape()[2], width = y.shape()[3], channels = 4 / p.groups;
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t ow = i % width, oh = i / width % height, o = i / width / height % 6;
    const int64_t n = i / width / height / 6, group = o / (6 / p.groups);
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t kh = 0; kh < 2; ++kh) {
        for (int64_t kw = 0; kw < 3; ++kw) {
          const int64_t h = oh * p.stride - p.low + kh;
          const int64_t q = ow - 1 + kw * p.w_dilation;
          if (h < 0 || h % p.x_dilation != 0 || h / p.x_dilation >= 5 || q < 0 || q >= 6) continue;
          sum += x.at_double(((n * 4 + group * channels + c) * 5 + h / p.x_dilation) * 6 + q) *
                 w.at_double(((o * channels + c) * 2 + kh) * 3 + kw);
        }
      }
    }
    EXPECT_EQ(y.at_double(i), static_cast<float>(sum)) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Interpreter, ConvolutionTest,
                         ::testing::Values(ConvolutionCase{1, 0, 0, 1, 1, 1},
                                           ConvolutionCase{2, 1, 1, 1, 2, 1},
                                           ConvolutionCase{1, 1, 0, 2, 1, 2},
                                           ConvolutionCase{3, -1, 2, 1, 2, 2}));

TEST(Interpreter, GathersClampTheirIndices) {
  const HostTensor x = tensor(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  const HostTensor i = tensor(DType::kI64, {2}, {5, -7});
  EXPECT_THAT(run("(x: f32[3,2], i: i64[2]) { y = gather x, i, axis=0 : f32[2,2] } -> (y)", {x, i}),
              ElementsAre(5, 6, 1, 2));
  const HostTensor batched = tensor(DType::kI32, {3, 1}, {1, 0, 1});
  EXPECT_THAT(run("(x: f32[3,2], i: i32[3,1]) { y = gather x, i, axis=1, batch_dims=1 : f32[3,1] "
                  "} -> (y)",
                  {x, batched}),
              ElementsAre(2, 3, 6));
  EXPECT_THAT(
      run("(x: f32[3,2], i: i32[3,1]) { y = gather_elements x, i, axis=0 : f32[3,1] } -> (y)",
          {x, batched}),
      ElementsAre(3, 1, 3));
  const HostTensor tuples = tensor(DType::kI64, {2, 2}, {2, 0, 0, 1});
  EXPECT_THAT(run("(x: f32[3,2], i: i64[2,2]) { y = gather_nd x, i : f32[2] } -> (y)", {x, tuples}),
              ElementsAre(5, 2));
  EXPECT_THAT(run("(x: f32[3,2], i: i32[3,1]) { y = gather_nd x, i, batch_dims=1 : f32[3] } -> (y)",
                  {x, batched}),
              ElementsAre(2, 3, 6));
}

TEST(Interpreter, ScattersApplyUpdatesInOrder) {
  const HostTensor x = tensor(DType::kF32, {4}, {1, 2, 3, 4});
  const HostTensor i = tensor(DType::kI64, {3}, {1, 3, 1});
  const HostTensor u = tensor(DType::kF32, {3}, {10, 20, 30});
  const std::string head = "(x: f32[4], i: i64[3], u: f32[3]) { ";
  EXPECT_THAT(run(head + "y = scatter_elements x, i, u, axis=0 : f32[4] } -> (y)", {x, i, u}),
              ElementsAre(1, 30, 3, 20));
  EXPECT_THAT(run(head + "y = scatter_elements x, i, u, axis=0, combines=true, combiner=sum "
                         ": f32[4] } -> (y)",
                  {x, i, u}),
              ElementsAre(1, 42, 3, 24));
  const HostTensor tuple = tensor(DType::kI64, {1, 1}, {2});
  const HostTensor update = tensor(DType::kF32, {1}, {-1});
  EXPECT_THAT(run("(x: f32[4], i: i64[1,1], u: f32[1]) { y = scatter_nd x, i, u, combines=true, "
                  "combiner=min : f32[4] } -> (y)",
                  {x, tuple, update}),
              ElementsAre(1, 2, -1, 4));
}

TEST(Interpreter, SortIsStableAndPutsNanLast) {
  const HostTensor x = tensor(DType::kF32, {5}, {2, kNan, 1, 2, -kInf});
  const std::string sort = "(x: f32[5]) { v, i = sort x, axis=0, descending=";
  EXPECT_THAT(run(sort + "false : f32[5], i64[5] } -> (i)", {x}), ElementsAre(4, 2, 0, 3, 1));
  EXPECT_THAT(run(sort + "true : f32[5], i64[5] } -> (i)", {x}), ElementsAre(1, 0, 3, 2, 4));
  EXPECT_THAT(
      run("(x: f32[5]) { v, i = top_k x, axis=0, k=2, largest=false : f32[2], i64[2] } -> (i)",
          {x}),
      ElementsAre(4, 2));
}

TEST(Interpreter, ControlFlow) {
  const HostTensor xs = tensor(DType::kF32, {3, 1}, {1, 10, 100});
  const HostTensor h = tensor(DType::kF32, {1}, {0.5});
  const std::string scan = R"((h: f32[1], xs: f32[3,1]) {
    last, all = scan h, xs, carry_count=1, scanned_count=1, x_reverse={true}, y_reverse={false} : f32[1], f32[3,1]
      region (h: f32[1], x: f32[1]) { n = add h, x : f32[1] } -> (n, y=n)
  } -> )";
  EXPECT_THAT(run(scan + "(all)", {h, xs}), ElementsAre(100.5, 110.5, 111.5));
  EXPECT_THAT(run(scan + "(last)", {h, xs}), ElementsAre(111.5));
  const std::string loop = R"((n: i64[]) {
    i = constant 1 : i64[]
    r = while i, n, carry_count=1 : i64[]
      region (i: i64[], n: i64[]) { c = lt i, n : bool[] } -> (c)
      region (i: i64[], n: i64[]) { d = add i, i : i64[] } -> (d)
  } -> (r))";
  EXPECT_THAT(run(loop, {tensor(DType::kI64, {}, {100})}), ElementsAre(128));
  const Result<Graph> graph = parse_graph(loop);
  EXPECT_FALSE(interpret(*graph, {tensor(DType::kI64, {}, {100})}, 3).ok());
}

TEST(Interpreter, EmptyTensorsWithHugeExtentsTakeNoTime) {
  const std::string huge = "1099511627776";
  const HostTensor x(DType::kF32, {int64_t{1} << 40, 3, 0});
  const std::string head = "(x: f32[" + huge + ",3,0]) { ";
  EXPECT_THAT(run(head + "y = arg_reduce x, axis=1 : i64[" + huge + ",0] } -> (y)", {x}),
              ElementsAre());
  EXPECT_THAT(
      run(head + "v, i = sort x, axis=0 : f32[" + huge + ",3,0], i64[" + huge + ",3,0] } -> (v)",
          {x}),
      ElementsAre());
  EXPECT_THAT(run(head +
                      "y = dot_general x, x, lhs_batch={0}, rhs_batch={0}, lhs_contract={1}, "
                      "rhs_contract={1} : f32[" +
                      huge + ",0,0] } -> (y)",
                  {x}),
              ElementsAre());
  const Result<Graph> scan = parse_graph("(x: f32[" + huge + R"(,0]) {
    y = scan x, carry_count=0, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[)" +
                                         huge + R"(,0]
      region (s: f32[0]) { } -> (s)
  } -> (y))");
  ASSERT_TRUE(scan.ok()) << scan.error().message;
  const Result<std::vector<HostTensor>> result =
      interpret(*scan, {HostTensor(DType::kF32, {int64_t{1} << 40, 0})});
  EXPECT_EQ(result.error().message, "loops ran for more than 4294967296 iterations");
}

TEST(Interpreter, ChecksItsInputs) {
  const Result<Graph> graph = parse_graph("(x: f32[2]) {} -> (x)");
  EXPECT_EQ(interpret(*graph, {ramp({3})}).error().message, "input x is f32[3], not f32[2]");
  EXPECT_EQ(interpret(*graph, {}).error().message, "the graph takes 1 inputs, not 0");
}

TEST(Interpreter, ReadsMisalignedViews) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(9);
  const float value[] = {1.5F, -2.5F};
  std::memcpy(bytes->data() + 1, value, 8);
  const HostTensor x(DType::kF32, {2}, bytes, {bytes->data() + 1, 8});
  EXPECT_THAT(run("(x: f32[2]) { y = neg x : f32[2] } -> (y)", {x}), ElementsAre(-1.5, 2.5));
}

}  // namespace
}  // namespace weft
