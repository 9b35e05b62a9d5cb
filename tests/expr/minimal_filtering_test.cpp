#include "expr/products/minimal_filtering.h"

#include <fmt/format.h>

#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

HostTensor numbers(Shape shape, int64_t step, DType type = DType::kF32) {
  HostTensor out(type, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_double(i, static_cast<double>(i * step % 23 - 11) / 8);
  return out;
}

const auto kAlways = [](const WindowSum&) { return true; };

std::vector<TensorId> filtered(TensorProgram& program,
                               const std::function<bool(const WindowSum&)>& pays) {
  FilteredWeights weights;
  return filter_minimally(program, pays, weights);
}

/// A convolution of x and w, of which w is a constant.
struct Convolution {
  std::string x, w, y, attributes;
};

Graph graph_of(const Convolution& c, const char* type = "f32") {
  return parsed_graph(
      fmt::format("(x: {4}{0}, w: {4}{1}) {{\n  y = convolution x, w, {2} : {4}{3}\n}} -> (y)", c.x,
                  c.w, c.attributes, c.y, type));
}

/// The second input becomes a constant of this value.
TensorProgram with_weights(const Graph& graph, const HostTensor& weights) {
  TensorProgram program = expressed(graph);
  Tensor& w = program.tensors[static_cast<size_t>(program.inputs[1])];
  w.kind = Tensor::Kind::kConstant;
  w.value = weights;
  program.inputs.pop_back();
  return program;
}

TensorProgram program_of(const Convolution& c) {
  const Graph graph = graph_of(c);
  return with_weights(graph, numbers(graph.type(graph.inputs[1]).shape, 5));
}

std::string attributes(int axes, int64_t low, int64_t high, int64_t stride = 1,
                       int64_t dilation = 1, int64_t groups = 1) {
  const auto list = [axes](int64_t n) {
    std::string out = "{" + std::to_string(n);
    for (int a = 1; a < axes; ++a) out += "," + std::to_string(n);
    return out + "}";
  };
  return fmt::format("strides={}, low={}, high={}, lhs_dilations={}, rhs_dilations={}, groups={}",
                     list(stride), list(low), list(high), list(1), list(dilation), groups);
}

class Filtered : public testing::TestWithParam<Convolution> {};

TEST_P(Filtered, ComputesTheSame) {
  const Graph graph = graph_of(GetParam());
  const HostTensor x = numbers(graph.type(graph.inputs[0]).shape, 7),
                   w = numbers(graph.type(graph.inputs[1]).shape, 5);
  TensorProgram program = with_weights(graph, w);
  const auto expected = interpret(graph, {x, w});
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(filtered(program, kAlways).size(), 1U);
  const Status status = verify_tensor_program(program);
  ASSERT_TRUE(status.ok()) << status.error().message << print(program);
  ASSERT_EQ(program.exprs.size(), 3U);
  EXPECT_FALSE(program.exprs[0].is_contraction);
  EXPECT_TRUE(program.exprs[1].is_contraction);
  expect_computes(program, {x}, *expected);
  // The middle is a product of matrices, no sum over windows.
  EXPECT_TRUE(filtered(program, kAlways).empty());
}

TEST_P(Filtered, ComputesTheSameOfWeightsThatVary) {
  const Graph graph = graph_of(GetParam());
  const HostTensor x = numbers(graph.type(graph.inputs[0]).shape, 7),
                   w = numbers(graph.type(graph.inputs[1]).shape, 5);
  TensorProgram program = expressed(graph);
  const auto expected = interpret(graph, {x, w});
  ASSERT_TRUE(expected.ok());
  bool varies = false;
  const auto ask = [&](const WindowSum& sum) {
    varies = sum.varies;
    return true;
  };
  EXPECT_EQ(filtered(program, ask).size(), 1U);
  EXPECT_TRUE(varies);
  const Status status = verify_tensor_program(program);
  ASSERT_TRUE(status.ok()) << status.error().message << print(program);
  ASSERT_EQ(program.exprs.size(), 4U);
  expect_computes(program, {x, w}, *expected);
  EXPECT_TRUE(filtered(program, kAlways).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Convolutions, Filtered,
    testing::Values(
        Convolution{"[1,2,8,6]", "[4,2,3,3]", "[1,4,8,6]", attributes(2, 1, 1)},
        Convolution{"[2,3,7,5]", "[4,3,3,3]", "[2,4,7,5]", attributes(2, 1, 1)},
        Convolution{"[1,2,6,9]", "[4,2,3,3]", "[1,4,4,7]", attributes(2, 0, 0)},
        Convolution{"[1,2,5,4]", "[4,2,3,3]", "[1,4,6,5]", attributes(2, 2, 1)},
        Convolution{"[1,2,9]", "[4,2,3]", "[1,4,9]", attributes(1, 1, 1)},
        Convolution{"[2,5,8]", "[3,5,3]", "[2,3,6]", attributes(1, 0, 0)},
        // Groups: as many outputs as inputs, more, fewer.
        Convolution{"[1,6,8,6]", "[6,3,3,3]", "[1,6,8,6]", attributes(2, 1, 1, 1, 1, 2)},
        Convolution{"[2,6,7]", "[12,2,3]", "[2,12,7]", attributes(1, 1, 1, 1, 1, 3)},
        Convolution{"[1,8,5,6]", "[4,4,3,3]", "[1,4,5,6]", attributes(2, 1, 1, 1, 1, 2)},
        // One axis of two.
        Convolution{"[1,2,6,6]", "[4,2,3,1]", "[1,4,6,6]",
                    "strides={1,1}, low={1,0}, high={1,0}, lhs_dilations={1,1}, "
                    "rhs_dilations={1,1}, groups=1"}));

/// In float32: of the factors' 16 bits nothing is lost, and the sum is rounded once.
TEST(MinimalFiltering, TakesHalves) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const std::string name(dtype_name(type));
    const Graph graph =
        graph_of({"[1,4,8,6]", "[4,4,3,3]", "[1,4,8,6]", attributes(2, 1, 1)}, name.c_str());
    const HostTensor x = numbers(graph.type(graph.inputs[0]).shape, 7, type),
                     w = numbers(graph.type(graph.inputs[1]).shape, 5, type);
    TensorProgram program = with_weights(graph, w);
    const auto expected = interpret(graph, {x, w});
    ASSERT_TRUE(expected.ok());
    bool of_pairs = false;
    const auto ask = [&](const WindowSum& sum) {
      of_pairs = sum.of_pairs;
      return true;
    };
    EXPECT_EQ(filtered(program, ask).size(), 1U) << name;
    EXPECT_EQ(of_pairs, type == DType::kBF16);
    expect_computes(program, {x}, *expected);
  }
}

TEST(MinimalFiltering, IsThreeExpressions) {
  TensorProgram program = program_of({"[1,2,9]", "[4,2,3]", "[1,4,9]", attributes(1, 1, 1)});
  ASSERT_EQ(filtered(program, kAlways).size(), 1U);
  remove_dead_expressions(program);
  std::string text = print(program);
  const size_t begin = text.find("  y_windows");
  ASSERT_NE(begin, std::string::npos) << text;
  EXPECT_EQ(
      text.substr(begin),
      R"(  y_windows: f32[4,1,5,2] = (i64(d0 + d2 * 2) < i64(11) ? (i64(d0 + d2 * 2 - 1) >= i64(0) && i64(d0 + d2 * 2 - 1) < i64(9) ? x[d1, d3, d0 + d2 * 2 - 1] : 0.0) : 0.0) + f32(-d0 floordiv 3 * 2 + d0 mod 2 * 2 - 1) * (i64(d2 * 2 - d0 floordiv 2 + 2) < i64(11) ? (i64(d2 * 2 - d0 floordiv 2 + 1) >= i64(0) && i64(d2 * 2 - d0 floordiv 2 + 1) < i64(9) ? x[d1, d3, d2 * 2 - d0 floordiv 2 + 1] : 0.0) : 0.0)
  y_products: f32[4,1,5,4] = contraction sum[2]:f32 y_windows[d0, d1, d2, r0] * w_windows[d0, r0, d3]
  y: f32[1,4,9] = y_products[d2 mod 2, d0, d2 floordiv 2, d1] + f32(-d2 mod 2 * 2 + 1) * y_products[d2 mod 2 + 1, d0, d2 floordiv 2, d1] + y_products[d2 mod 2 + 2, d0, d2 floordiv 2, d1]
  output y as y
}
)");
}

/// Groups are a batch of the products in the middle, and lie side by side in what is around them.
TEST(MinimalFiltering, KeepsGroupsApart) {
  TensorProgram program =
      program_of({"[1,4,8]", "[6,2,3]", "[1,6,8]", attributes(1, 1, 1, 1, 1, 2)});
  WindowSum asked;
  filtered(program, [&](const WindowSum& sum) {
    asked = sum;
    return true;
  });
  EXPECT_EQ(asked.groups, 2);
  EXPECT_EQ(asked.inputs, 2);
  EXPECT_EQ(asked.outputs, 3);
  const std::string text = print(program);
  EXPECT_NE(text.find("x[d1, d3 * 2 + d4, "), std::string::npos) << text;
  EXPECT_NE(
      text.find("y_products: f32[4,1,4,2,3] = contraction sum[2]:f32 y_windows[d0, d1, d2, d3, "
                "r0] * w_windows[d0, d3, r0, d4]"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("y_products[d2 mod 2, d0, d2 floordiv 2, d1 floordiv 3, d1 mod 3]"),
            std::string::npos)
      << text;
}

struct Unfit {
  std::string why;
  Convolution convolution;
};

TEST(MinimalFiltering, LeavesOtherSums) {
  const Unfit others[] = {
      {"steps of two", {"[1,2,8]", "[4,2,3]", "[1,4,4]", attributes(1, 1, 1, 2)}},
      {"places apart", {"[1,2,8]", "[4,2,3]", "[1,4,8]", attributes(1, 2, 2, 1, 2)}},
      {"single channels", {"[1,4,8]", "[4,1,3]", "[1,4,8]", attributes(1, 1, 1, 1, 1, 4)}},
      {"five places", {"[1,2,8]", "[4,2,5]", "[1,4,8]", attributes(1, 2, 2)}},
      {"one place", {"[1,2,8]", "[4,2,1]", "[1,4,8]", attributes(1, 0, 0)}},
      {"three axes", {"[1,2,4,4,4]", "[4,2,3,3,3]", "[1,4,4,4,4]", attributes(3, 1, 1)}},
  };
  for (const Unfit& other : others) {
    TensorProgram program = program_of(other.convolution);
    const std::string before = print(program);
    EXPECT_TRUE(filtered(program, kAlways).empty()) << other.why;
    EXPECT_EQ(print(program), before) << other.why;
  }
}

/// As the gradient of an image reads them, from the last place to the first.
TEST(MinimalFiltering, WalksWeightsBackwards) {
  const Graph graph = parsed_graph(R"((g: f32[2,4,6,5], w: f32[4,3,3,3]) {
    f = slice w, start={0,0,2,2}, step={1,1,-1,-1} : f32[4,3,3,3]
    t = transpose f, permutation={1,0,2,3} : f32[3,4,3,3]
    y = convolution g, t, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[2,3,6,5]
  } -> (y))");
  const std::vector<HostTensor> inputs = {numbers(graph.type(graph.inputs[0]).shape, 7),
                                          numbers(graph.type(graph.inputs[1]).shape, 5)};
  TensorProgram program = expressed(graph);
  fold_movement(program);
  EXPECT_EQ(filtered(program, kAlways).size(), 1U);
  expect_computes(program, inputs, *interpret(graph, inputs));
}

/// Two windows over one axis: one of them is filtered, or none.
TEST(MinimalFiltering, TakesAnAxisOnce) {
  const std::string text = R"(program {
  input x: f32[9,2]
  constant w: f32[3,3,2,4] = #0
  y: f32[5,4] = contraction sum[3, 3, 2]:f32 x[d0 + r0 + r1, r2] * w[r0, r1, r2, d1]
  output y as y
}
)";
  auto program = parse_tensor_program(
      text, [](std::string_view, const TensorType& type) -> Result<HostTensor> {
        return numbers(type.shape, 5);
      });
  ASSERT_TRUE(program.ok()) << program.error().message;
  const HostTensor x = numbers({9, 2}, 7);
  const auto expected = evaluate(*program, {x});
  ASSERT_TRUE(expected.ok());
  filtered(*program, kAlways);
  EXPECT_TRUE(verify_tensor_program(*program).ok());
  expect_computes(*program, {x}, *expected);
}

/// What data leave out of a sum, here one number for all and one for each element.
TEST(MinimalFiltering, LeavesWhatIsMaskedByData) {
  for (const std::string mask : {"m[]", "k[i32(q[d0]), r0]"}) {
    auto program = parse_tensor_program(
        R"(program {
  input x: f32[10,2]
  input m: bool[]
  input k: bool[4,3]
  input q: i32[8]
  constant w: f32[3,2,4] = #0
  y: f32[8,4] = contraction sum[3, 2]:f32 ()" +
            mask +
            R"( ? x[d0 + r0, r1] : 0.0) * w[r0, r1, d1]
  output y as y
}
)",
        [](std::string_view, const TensorType& type) -> Result<HostTensor> {
          return numbers(type.shape, 5);
        });
    ASSERT_TRUE(program.ok()) << program.error().message;
    EXPECT_TRUE(filtered(*program, kAlways).empty()) << mask;
  }
}

TEST(MinimalFiltering, LeavesOpenWindows) {
  TensorProgram program = program_of({"[2,2,8]", "[4,2,3]", "[2,4,8]", attributes(1, 1, 1)});
  program.exprs[0].open = {false, false, true, false, false};
  EXPECT_TRUE(filtered(program, kAlways).empty());
  program.exprs[0].open = {true, false, false, false, false};
  WindowSum asked;
  ASSERT_EQ(filtered(program,
                     [&](const WindowSum& sum) {
                       asked = sum;
                       return true;
                     })
                .size(),
            1U);
  // As for one picture, whatever there are.
  EXPECT_EQ(asked.tiles, 4);
  EXPECT_EQ(program.exprs[0].open, std::vector<bool>({false, true, false, false}));
  EXPECT_EQ(program.exprs[1].open, std::vector<bool>({false, true, false, false, false}));
  EXPECT_EQ(program.exprs[2].open, std::vector<bool>({true, false, false}));
}

TEST(MinimalFiltering, AsksWhetherItPays) {
  TensorProgram program = program_of({"[2,5,7,6]", "[4,5,3,3]", "[2,4,7,6]", attributes(2, 1, 1)});
  WindowSum asked;
  std::string name;
  const auto ask = [&](const WindowSum& sum) {
    asked = sum;
    name = sum.name;
    return false;
  };
  const std::string before = print(program);
  EXPECT_TRUE(filtered(program, ask).empty());
  EXPECT_EQ(print(program), before);
  EXPECT_EQ(name, "y");
  EXPECT_EQ(asked.tiles, 2 * 4 * 3);
  EXPECT_EQ(asked.results, 2 * 7 * 6);
  EXPECT_EQ(asked.inputs, 5);
  EXPECT_EQ(asked.outputs, 4);
  EXPECT_EQ(asked.places, 9);
  EXPECT_EQ(asked.products, 16);
  EXPECT_FALSE(asked.along_vectors);  // channels lie a picture apart
  Tensor& x = program.tensors[static_cast<size_t>(program.inputs[0])];
  x.layout = permuted_layout(x.type.shape, {0, 2, 3, 1});
  filtered(program, ask);
  EXPECT_TRUE(asked.along_vectors);
}

/// Two bindings of a model read the same constants: these are transformed once.
TEST(FilteredWeights, AreSharedByProgramsThatReadTheSame) {
  const Convolution c{"[1,4,6,6]", "[4,4,3,3]", "[1,4,6,6]", attributes(2, 1, 1)};
  const Graph graph = graph_of(c);
  const HostTensor weights = numbers({4, 4, 3, 3}, 5);
  FilteredWeights made;
  const auto transformed = [&](const HostTensor& w) {
    TensorProgram program = with_weights(graph, w);
    EXPECT_EQ(filter_minimally(program, kAlways, made).size(), 1U);
    const auto constant = std::ranges::find_if(program.tensors, [](const Tensor& t) {
      return t.name.ends_with("_windows") && t.kind == Tensor::Kind::kConstant;
    });
    return constant == program.tensors.end() ? nullptr : constant->value.raw();
  };
  const auto* const first = transformed(weights);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(transformed(weights), first);
  EXPECT_NE(transformed(numbers({4, 4, 3, 3}, 5)), first);
}

}  // namespace
}  // namespace weft
