#include "rewrite/merge_equal_nodes.h"

#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

TEST(MergeEqualNodes, MergesNodesAndConstantsInOnePass) {
  expect_rewrite(merge_equal_nodes, R"((x: f32[2]) {
  c = constant {1, 2} : f32[2]
  d = constant {1, 2} : f32[2]
  a = add x, c : f32[2]
  b = add x, d : f32[2]
  y = mul a, b : f32[2]
} -> (y))",
                 R"((x: f32[2]) {
  c = constant {1, 2} : f32[2]
  a = add x, c : f32[2]
  y = mul a, a : f32[2]
} -> (y))");
}

TEST(MergeEqualNodes, TellsTypesBitsAndAttributesApart) {
  expect_unchanged(merge_equal_nodes, R"((x: f32[2,2]) {
  a = constant 0 : f32[]
  b = constant -0 : f32[]
  c = constant 0 : i32[]
  d = reduce x, axes={0}, combiner=sum : f32[2]
  e = reduce x, axes={1}, combiner=sum : f32[2]
  f = reshape x : f32[4]
  g = reshape x : f32[4,1]
} -> (a, b, c, d, e, f, g))");
}

TEST(MergeEqualNodes, LargeConstantsThatDifferInOneElementStayApart) {
  Graph graph;
  for (int k = 0; k < 3; ++k) {
    HostTensor value(DType::kF32, {5000});
    for (int64_t i = 0; i < 5000; ++i) value.set_double(i, static_cast<double>(i % 37) - 18.5);
    if (k == 1) value.set_double(1234, 99);
    const Result<ValueId> v = graph.add1(GraphOp::kConstant, ConstantAttrs{value}, {});
    graph.add_output(*v, "y" + std::to_string(k));
  }
  EXPECT_TRUE(merge_equal_nodes(graph));
  EXPECT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.outputs[0], graph.outputs[2]);
  EXPECT_NE(graph.outputs[0], graph.outputs[1]);
}

}  // namespace
}  // namespace weft
