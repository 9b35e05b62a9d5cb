#include "expr/movement/sink_constants.h"

#include <gtest/gtest.h>

#include "expr/express/express.h"

namespace weft {
namespace {

TEST(SinkConstants, MakesACapturedWeightAConstantOfTheRegion) {
  auto step = std::make_shared<Graph>();
  const ValueId h = step->add_input("h", {DType::kF32, {2}});
  const ValueId x = step->add_input("x", {DType::kF32, {2}});
  const ValueId w = step->add_input("w", {DType::kF32, {2}});
  const ValueId m = *step->add1(GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kMul}, {h, w});
  const ValueId n = *step->add1(GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kAdd}, {m, x});
  step->add_output(n, "next");
  step->add_output(m, "y");

  Graph graph;
  HostTensor weight(DType::kF32, {2});
  weight.set_double(0, 0.5);
  weight.set_double(1, -2);
  const ValueId h0 = graph.add_input("h0", {DType::kF32, {2}});
  const ValueId xs = graph.add_input("xs", {DType::kF32, {3, 2}});
  const ValueId c = *graph.add1(GraphOp::kConstant, ConstantAttrs{weight}, {});
  ScanAttrs attrs;
  attrs.carry_count = 1;
  attrs.scanned_count = 1;
  attrs.x_reverse = {false};
  attrs.y_reverse = {false};
  auto results = graph.add(GraphOp::kScan, attrs, {h0, xs, c}, {}, {step});
  ASSERT_TRUE(results.ok()) << results.error().message;
  graph.add_output((*results)[0], "h");
  graph.add_output((*results)[1], "ys");

  auto program = express(graph);
  ASSERT_TRUE(program.ok()) << program.error().message;
  std::vector<HostTensor> inputs{HostTensor(DType::kF32, {2}), HostTensor(DType::kF32, {3, 2})};
  for (HostTensor& t : inputs) {
    for (int64_t i = 0; i < t.size(); ++i) t.set_double(i, 0.25 * static_cast<double>(i + 1));
  }
  const auto before = evaluate(*program, inputs);
  ASSERT_TRUE(before.ok()) << before.error().message;
  EXPECT_TRUE(sink_constants(*program));
  EXPECT_TRUE(verify_tensor_program(*program).ok());
  ASSERT_EQ(program->opaques.size(), 1U);
  EXPECT_EQ(program->opaques[0].operands.size(), 2U);
  EXPECT_EQ(program->opaques[0].regions[0]->inputs.size(), 2U);
  const auto after = evaluate(*program, inputs);
  ASSERT_TRUE(after.ok()) << after.error().message;
  for (size_t o = 0; o < before->size(); ++o) {
    for (int64_t i = 0; i < (*before)[o].size(); ++i)
      EXPECT_EQ((*before)[o].at_double(i), (*after)[o].at_double(i));
  }
  EXPECT_FALSE(sink_constants(*program));
}

}  // namespace
}  // namespace weft
