#include <gtest/gtest.h>

#include "graph/graph.h"

namespace weft {
namespace {

/// The type that a node of a one-node graph has, or its error without the position.
std::string inferred(const std::string& inputs, const std::string& node) {
  const Result<Graph> graph = parse_graph("(" + inputs + ") { y = " + node + " } -> (y)");
  if (graph.ok()) {
    EXPECT_TRUE(verify_graph(*graph).ok());
    return print(graph->type(graph->outputs[0]));
  }
  const std::string& message = graph.error().message;
  return message.substr(message.find(' ') + 1);
}

TEST(InferTypes, Elementwise) {
  EXPECT_EQ(inferred("a: f32[2], b: f32[3]", "add a, b : f32[2]"),
            "add(f32[2], f32[3]): the operands' shapes differ");
  EXPECT_EQ(inferred("a: f32[2], b: f16[2]", "add a, b : f32[2]"),
            "add(f32[2], f16[2]): the operands' types differ");
  EXPECT_EQ(inferred("a: f32[2]", "add a : f32[2]"), "add(f32[2]): takes 2 operands");
  EXPECT_EQ(inferred("a: i32[2]", "exp a : i32[2]"), "exp(i32[2]): is not defined on i32");
  EXPECT_EQ(inferred("a: bool[2]", "add a, a : bool[2]"),
            "add(bool[2], bool[2]): is not defined on bool");
  EXPECT_EQ(inferred("a: f32[2]", "lt a, a : bool[2]"), "bool[2]");
  EXPECT_EQ(inferred("a: f32[2]", "bitcast a : i32[2]"), "i32[2]");
  EXPECT_EQ(inferred("a: f32[2]", "bitcast a : i16[2]"), "bitcast(f32[2]): cannot become i16");
  EXPECT_EQ(inferred("a: f32[2]", "select a, a, a : f32[2]"),
            "select(f32[2], f32[2], f32[2]): the condition must be bool");
}

TEST(InferTypes, Movement) {
  EXPECT_EQ(inferred("a: f32[2,3]", "reshape a : f32[4]"),
            "reshape(f32[2,3]): cannot become f32[4]: another number of elements");
  EXPECT_EQ(inferred("a: f32[2,3]", "transpose a, permutation={0,0} : f32[2,2]"),
            "transpose(f32[2,3]): permutation: axis 0 appears twice");
  EXPECT_EQ(inferred("a: f32[2,3]", "transpose a, permutation={0} : f32[2]"),
            "transpose(f32[2,3]): permutation has 1 entries, not 2");
  EXPECT_EQ(inferred("a: f32[2]", "broadcast a, dims={1} : f32[3]"),
            "broadcast(f32[2]): dims must be ascending axes of f32[3]");
  EXPECT_EQ(inferred("a: f32[2]", "broadcast a, dims={0} : f32[3]"),
            "broadcast(f32[2]): axis 0 does not broadcast to f32[3]");
  EXPECT_EQ(inferred("a: f32[5]", "slice a, start={1}, step={2} : f32[3]"),
            "slice(f32[5]): axis 0 from 1 by 2 with extent 3 leaves the tensor");
  EXPECT_EQ(inferred("a: f32[5]", "slice a, start={4}, step={-4} : f32[2]"), "f32[2]");
  EXPECT_EQ(inferred("a: f32[5]", "slice a, start={0}, step={0} : f32[2]"),
            "slice(f32[5]): step 0 on axis 0");
  EXPECT_EQ(inferred("a: f32[5]", "slice a, start={0}, step={9223372036854775807} : f32[2]"),
            "slice(f32[5]): step 9223372036854775807 is beyond 2^40");
  EXPECT_EQ(inferred("a: f32[5], z: f32[]", "pad a, z, low={-3}, high={-3} : f32[0]"),
            "pad(f32[5], f32[]): axis 0 cannot grow by -3 and -3");
  EXPECT_EQ(inferred("a: f32[5], z: f32[1]", "pad a, z, low={1}, high={0} : f32[6]"),
            "pad(f32[5], f32[1]): the fill must be a scalar of the same type");
  EXPECT_EQ(inferred("a: f32[2,3], b: f32[2,4]", "concat a, b, axis=0 : f32[4,3]"),
            "concat(f32[2,3], f32[2,4]): the operands' extents differ on axis 1");
}

TEST(InferTypes, ResultsAreBounded) {
  EXPECT_EQ(inferred("a: f32[1099511627776,0]", "broadcast a, dims={0,2} : f32[1099511627776,2,0]"),
            "f32[1099511627776,2,0]");
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {1 << 20, 1}});
  const ValueId y = graph.add_input("y", {DType::kF32, {1, 1 << 20}});
  const Result<ValueId> product =
      graph.add1(GraphOp::kDotGeneral, DotAttrs{{}, {}, {1}, {0}}, {x, y});
  EXPECT_EQ(
      product.error().message,
      "dot_general(f32[1048576,1], f32[1,1048576]): the result f32[1048576,1048576] is larger "
      "than 2^40 bytes or has a negative extent");
  const Result<ValueId> deep =
      graph.add1(GraphOp::kReshape, ReshapeAttrs{}, {x}, {DType::kF32, Shape(33, 1)});
  EXPECT_FALSE(deep.ok());
}

TEST(InferTypes, GathersAndScatters) {
  const std::string inputs = "x: f32[4,5], i: i64[4,2], u: f32[4,2]";
  EXPECT_EQ(inferred(inputs, "gather x, i, axis=1, batch_dims=1 : f32[4,2]"), "f32[4,2]");
  EXPECT_EQ(inferred(inputs, "gather x, i, axis=0, batch_dims=0 : f32[4,2,5]"), "f32[4,2,5]");
  EXPECT_EQ(inferred(inputs, "gather x, i, axis=0, batch_dims=1 : f32[4]"),
            "gather(f32[4,5], i64[4,2]): batch_dims 1 is out of range");
  EXPECT_EQ(inferred(inputs, "gather x, u, axis=0, batch_dims=0 : f32[4]"),
            "gather(f32[4,5], f32[4,2]): indices must be i32 or i64");
  EXPECT_EQ(inferred(inputs, "gather_nd x, i, batch_dims=0 : f32[4]"), "f32[4]");
  EXPECT_EQ(inferred(inputs, "scatter_elements x, i, u, axis=1 : f32[4,5]"), "f32[4,5]");
  EXPECT_EQ(inferred(inputs, "scatter_nd x, i, u : f32[4,5]"),
            "scatter_nd(f32[4,5], i64[4,2], f32[4,2]): the updates must be f32[4]");
  EXPECT_EQ(inferred("x: f32[0], i: i64[2]", "gather x, i, axis=0 : f32[2]"),
            "gather(f32[0], i64[2]): gathers from nothing");
}

TEST(InferTypes, ReductionsAndWindows) {
  EXPECT_EQ(inferred("x: f32[2,3]", "reduce x, axes={1,0}, combiner=sum : f32[]"),
            "reduce(f32[2,3]): axes must ascend");
  EXPECT_EQ(inferred("x: f32[2,3]", "reduce x, axes={2}, combiner=sum : f32[]"),
            "reduce(f32[2,3]): axes: axis 2 is not below the rank 2");
  EXPECT_EQ(inferred("x: f32[2,3]", "reduce x, axes={0}, combiner=arg_max : f32[3]"),
            "reduce(f32[2,3]): arg_max is not a combiner here");
  EXPECT_EQ(inferred("x: f32[2]", "reduce x, axes={0}, combiner=and : f32[]"),
            "reduce(f32[2]): and is not defined on f32");
  EXPECT_EQ(inferred("x: f32[2,0]", "arg_reduce x, axis=1 : i64[2]"),
            "arg_reduce(f32[2,0]): no element to choose from");
  const std::string window = "reduce_window x, strides={2}, dilations={1}, low={1}, high={1}, ";
  EXPECT_EQ(inferred("x: f32[5]", window + "window={3} : f32[3]"), "f32[3]");
  EXPECT_EQ(inferred("x: f32[5]", window + "window={9} : f32[0]"), "f32[0]");
  EXPECT_EQ(inferred("x: f32[5]", window + "window={0} : f32[3]"),
            "reduce_window(f32[5]): the window on axis 0 makes no sense");
  EXPECT_EQ(inferred("x: f32[5]", "top_k x, axis=0, k=6 : f32[6], i64[6]"),
            "top_k(f32[5]): k 6 is not within the axis");
}

TEST(InferTypes, Contractions) {
  EXPECT_EQ(inferred("a: f32[7,2,3], b: f32[3,5,7]",
                     "dot_general a, b, lhs_batch={0}, rhs_batch={2}, lhs_contract={2}, "
                     "rhs_contract={0} : f32[7,2,5]"),
            "f32[7,2,5]");
  EXPECT_EQ(inferred("a: f32[2,3], b: f32[4,5]",
                     "dot_general a, b, lhs_contract={1}, rhs_contract={0} : f32[2,5]"),
            "dot_general(f32[2,3], f32[4,5]): a contracted extent differs");
  EXPECT_EQ(inferred("a: f32[2,3], b: f32[3,5]",
                     "dot_general a, b, lhs_contract={1}, rhs_contract={0} : i32[2,5]"),
            "dot_general(f32[2,3], f32[3,5]): cannot accumulate in i32");
  const std::string conv =
      "convolution x, w, strides={2}, low={1}, high={1}, lhs_dilations={1}, rhs_dilations={1}, ";
  EXPECT_EQ(inferred("x: f32[1,4,9], w: f32[6,2,3]", conv + "groups=2 : f32[1,6,5]"), "f32[1,6,5]");
  EXPECT_EQ(inferred("x: f32[1,4,9], w: f32[6,2,3]", conv + "groups=3 : f32[1,6,5]"),
            "convolution(f32[1,4,9], f32[6,2,3]): 3 groups do not divide the channels");
}

TEST(VerifyGraph, FindsBrokenGraphs) {
  const Result<Graph> parsed = parse_graph(R"((x: f32[2]) {
  a = neg x : f32[2]
  b = exp a : f32[2]
} -> (b))");
  ASSERT_TRUE(parsed.ok());
  const auto broken = [&](auto&& change) {
    Graph graph = *parsed;
    change(graph);
    const Status status = verify_graph(graph);
    return status.ok() ? "fine" : status.error().message;
  };
  EXPECT_EQ(broken([](Graph&) {}), "fine");
  EXPECT_EQ(broken([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }),
            "node 0 elementwise (b) reads value 1 before it is made");
  EXPECT_EQ(broken([](Graph& g) { g.values[1].type.dtype = DType::kF64; }),
            "node 0 elementwise (a): result 0 is f64[2], not f32[2]");
  EXPECT_EQ(broken([](Graph& g) { g.values[1].name = "x"; }), "two values are called x");
  EXPECT_EQ(broken([](Graph& g) { g.nodes.pop_back(); }), "value b is made by nothing");
  EXPECT_EQ(broken([](Graph& g) { g.nodes[1].results = {1}; }),
            "value a is made twice, also by node 1 elementwise (a)");
  EXPECT_EQ(broken([](Graph& g) { g.outputs[0] = 7; }), "output b is no value");
  EXPECT_EQ(broken([](Graph& g) { g.nodes[0].attrs = IfAttrs{}; }),
            "node 0 elementwise (a) has attributes of another op");
  EXPECT_EQ(broken([](Graph& g) { g.nodes[0].origin = 0; }),
            "node 0 elementwise (a) has no such origin");
}

TEST(Graph, NamesStayUnique) {
  Graph graph;
  EXPECT_EQ(graph.values[static_cast<size_t>(graph.add_input("a", {}))].name, "a");
  EXPECT_EQ(graph.values[static_cast<size_t>(graph.add_input("a", {}))].name, "a_1");
  graph.values.push_back({"a_2", {}});
  graph.inputs.push_back(2);
  EXPECT_EQ(graph.values[static_cast<size_t>(graph.add_input("a", {}))].name, "a_3");
  EXPECT_TRUE(verify_graph(graph).ok());
}

TEST(Graph, UseDefListsReadersOnce) {
  const Graph graph = *parse_graph(R"((x: f32[2]) {
  a = mul x, x : f32[2]
  b = add a, x : f32[2]
} -> (b))");
  const UseDef ud = use_def(graph);
  EXPECT_EQ(ud.def, (std::vector<int32_t>{-1, 0, 1}));
  EXPECT_EQ(ud.uses[0], (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(ud.uses[1], (std::vector<int32_t>{1}));
}

}  // namespace
}  // namespace weft
