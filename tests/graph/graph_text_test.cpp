#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "graph/graph.h"

namespace weft {
namespace {

void expect_round_trip(const std::string& text) {
  const Result<Graph> graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const Status status = verify_graph(*graph);
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(print(*graph, {.origins = true}), text);
}

std::string error_of(const std::string& text) {
  const Result<Graph> graph = parse_graph(text);
  return graph.ok() ? "no error" : graph.error().message;
}

TEST(GraphText, RoundTripsTheExample) {
  expect_round_trip(R"((x: f32[1024]) {
  c = constant 2 : f32[]
  b = broadcast c, dims={} : f32[1024]
  y = mul x, b : f32[1024]
} -> (y))");
}

TEST(GraphText, RoundTripsAttributesAndSeveralResults) {
  expect_round_trip(R"((x: f32[4,8], "odd name\x0a\"": i64[2]) {
  v, i = top_k x, axis=1, k=3, largest=true : f32[4,3], i64[4,3]
  m = reduce_window x, window={2,2}, strides={1,2}, dilations={1,1}, low={0,-1}, high={1,1}, combiner=max : f32[4,4]
  g = gather x, "odd name\x0a\"", axis=0, batch_dims=0 : f32[2,8] @ "my node" Gather
} -> (v, "the indices"=i, m, g, x=v))");
}

TEST(GraphText, RoundTripsRegions) {
  expect_round_trip(R"((c: bool[], h: f32[2], xs: f32[5,2]) {
  last, all = scan h, xs, carry_count=1, scanned_count=1, x_reverse={true}, y_reverse={false} : f32[2], f32[5,2]
    region (h: f32[2], x: f32[2]) {
      n = add h, x : f32[2]
      region = tanh n : f32[2]
    } -> (region, y=region)
  r = if c, last : f32[2]
    region (a: f32[2]) {
    } -> (a)
    region (a: f32[2]) {
      b = neg a : f32[2]
    } -> (b)
} -> (r, all))");
}

TEST(GraphText, RoundTripsConstantsBitForBit) {
  expect_round_trip(R"(() {
  a = constant {0.1, -0, inf, -inf, nan, 0x7fc00001, 1e-45, 3.4028235e+38} : f32[8]
  b = constant {0.1, 5e-324, 0xfff8000000000000} : f64[3]
  c = constant {5.9604645e-08, 65504, nan} : f16[3]
  d = constant {1.0009766, 0x7e01} : f16[2]
  e = constant {9.1835e-41, 3.3895314e+38} : bf16[2]
  f = constant {-9223372036854775808, 9223372036854775807} : i64[2]
  g = constant {18446744073709551615, 7} : u64[2]
  h = constant {true, false} : bool[2]
  i = constant splat -128 : i8[2,3]
  j = constant {} : f32[0,4]
  k = constant {3} : u8[1]
} -> (a))");
}

TEST(GraphText, LargeConstantsPrintAsHashes) {
  Graph graph;
  HostTensor value(DType::kF32, {100});
  for (int64_t i = 0; i < 100; ++i) value.set_double(i, 0.25 * static_cast<double>(i));
  const Result<ValueId> c = graph.add1(GraphOp::kConstant, ConstantAttrs{value}, {}, {}, "c");
  ASSERT_TRUE(c.ok());
  graph.add_output(*c, "c");
  const std::string text = print(graph);
  EXPECT_NE(text.find("constant #"), std::string::npos);
  EXPECT_FALSE(parse_graph(text).ok());
  const auto supply = [&](std::string_view, const TensorType&) -> Result<HostTensor> {
    return value;
  };
  const Result<Graph> parsed = parse_graph(text, supply);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(print(*parsed), text);
}

TEST(GraphText, ErrorsSayWhere) {
  EXPECT_EQ(error_of("(x: f32[2]) {\n  y = add x, z : f32[2]\n} -> (y)"),
            "2:14: no value is called z");
  EXPECT_EQ(error_of("(x: f32[2]) {\n  y = frob x : f32[2]\n} -> (y)"),
            "2:7: 'frob' is no operation");
  EXPECT_EQ(error_of("(x: f32[2]) {\n  y = neg x : f32[3]\n} -> (y)"),
            "2:7: gives f32[2], not f32[3]");
  EXPECT_EQ(error_of("(x: f32[2], x: f32[2]) {} -> (x)"), "1:13: two values are called x");
  EXPECT_EQ(error_of("(x: f32[9223372036854775807,9]) {} -> (x)"),
            "1:5: f32[9223372036854775807,9] is too large or has a negative extent");
  EXPECT_EQ(error_of("() { c = constant splat 1 : f32[1000000000] } -> (c)"),
            "1:10: a splat of f32[1000000000] is too large for text");
  EXPECT_EQ(error_of("() { c = constant 300 : u8[] } -> (c)"), "1:10: '300' is no u8");
  EXPECT_EQ(error_of("() {} -> () x"), "1:13: text after the graph");
  EXPECT_EQ(error_of("(\"a"), "1:2: a quoted name does not end");
  EXPECT_EQ(error_of("(;"), "1:2: a character that means nothing here");
}

TEST(GraphText, RegionsDoNotExhaustTheStack) {
  std::string text = "(c: bool[]) { ";
  for (int i = 0; i < 100000; ++i) text += "y = if c : bool[] region (c: bool[]) { ";
  EXPECT_NE(error_of(text).find("regions nest too deeply"), std::string::npos);
}

TEST(GraphText, TruncatedAndMutatedTextNeverCrashes) {
  const std::string text = R"((c: bool[], h: f32[2]) {
  k = constant {1, 2.5} : f32[2]
  "q" = pad h, z, low={1}, high={-1} : f32[2]
  r = if c, k : f32[2]
    region (a: f32[2]) {
    } -> (a)
    region (a: f32[2]) {
      b = reduce a, axes={0}, combiner=sum : f32[]
    } -> (b)
} -> (r, x=k))";
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(parse_graph(text.substr(0, i)).ok());
    for (char c : {'{', '"', '-', '9', '=', '\0', '(', 'a'}) {
      std::string mutated = text;
      mutated[i] = c;
      const Result<Graph> graph = parse_graph(mutated);
      if (graph.ok()) {
        EXPECT_TRUE(verify_graph(*graph).ok());
      }
    }
  }
}

}  // namespace
}  // namespace weft
