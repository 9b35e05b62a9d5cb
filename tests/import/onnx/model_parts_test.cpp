#include "import/onnx/model_parts.h"

#include <gmock/gmock.h>

#include "interp/interpreter.h"
#include "tests/import/onnx/importing.h"
#include "tests/import/onnx/model_writer.h"

namespace weft::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Rows of x whose sum is positive, twice: y = 2 x[nonzero(sum(x) > 0)]; and a sum beside them.
TestModel positive_rows() {
  TestModel model;
  model.opset(13).input("x", DType::kF32, {"rows", 2}).initializer("zero", f32_tensor({}, {0}));
  model.initializer("first", i64_tensor({1}, {0})).initializer("columns", i64_tensor({1}, {1}));
  model.initializer("two", f32_tensor({}, {2}));
  model.node({"ReduceSum", {"x", "columns"}, {"sum"}, {int_attr("keepdims", 0)}});
  model.node({"Greater", {"sum", "zero"}, {"kept"}});
  model.node({"NonZero", {"kept"}, {"places"}});
  model.node({"Squeeze", {"places", "first"}, {"place"}});
  model.node({"Gather", {"x", "place"}, {"found"}});
  model.node({"Mul", {"found", "two"}, {"y"}});
  model.node({"Mul", {"sum", "two"}, {"beside"}});
  return model.output("y").output("beside");
}

std::unique_ptr<ModelParts> open(const std::string& model) {
  auto owner = std::make_shared<std::string>(model);
  auto parts = ModelParts::open({owner, bytes_of(*owner)}, "");
  EXPECT_TRUE(parts.ok()) << parts.error().message;
  return std::move(*parts);
}

KnownValue value(DType type, Shape shape) { return {{type, std::move(shape)}, std::nullopt}; }

TEST(ModelParts, HoldAllThatNeedsNoValues) {
  const auto parts = open(positive_rows().model());
  ASSERT_EQ(parts->node_count(), 7U);
  std::vector<bool> done(7);
  const auto first = parts->import(done, {{"x", value(DType::kF32, {3, 2})}});
  ASSERT_TRUE(first.ok()) << first.error().message;
  // What is behind the node that waits, too, where it does not read of it.
  EXPECT_THAT(first->nodes, ElementsAre(0, 1, 6));
  EXPECT_THAT(first->waiting, ElementsAre(2));
  EXPECT_THAT(first->graph.output_names, ElementsAre("kept", "beside"));
  for (const size_t node : first->nodes) done[node] = true;

  const auto results = interpret(first->graph, {f32_tensor({3, 2}, {1, 2, -3, -4, 5, 6})});
  ASSERT_TRUE(results.ok());
  const auto node =
      parts->import_node(2, {{"kept", value(DType::kBool, {3})}}, {{"kept", (*results)[0]}});
  ASSERT_TRUE(node.ok()) << node.error().message;
  EXPECT_EQ(node->constants.at("places").shape(), (Shape{1, 2}));
  done[2] = true;

  const auto last = parts->import(
      done, {{"x", value(DType::kF32, {3, 2})}, {"places", value(DType::kI64, {1, 2})}});
  ASSERT_TRUE(last.ok()) << last.error().message;
  EXPECT_THAT(last->waiting, IsEmpty());
  EXPECT_THAT(last->graph.output_names, ElementsAre("y"));
  EXPECT_EQ(last->graph.type(last->graph.outputs[0]).shape, (Shape{2, 2}));
  ASSERT_EQ(last->inputs.size(), 2U);
}

TEST(ModelParts, KeepShapesKnown) {
  TestModel model;
  model.opset(13).input("x", DType::kF32, {2, 6});
  model.node({"Shape", {"x"}, {"shape"}});
  model.node({"NonZero", {"x"}, {"places"}});
  model.node({"Transpose", {"places"}, {"turned"}});
  model.node({"Reshape", {"x", "shape"}, {"y"}}).output("y").output("turned", DType::kI64);
  model.output("shape", DType::kI64);
  const auto parts = open(model.model());
  const auto first =
      parts->import({false, false, false, false}, {{"x", value(DType::kF32, {2, 6})}});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->constants.at("shape").at_int(1), 6);
  EXPECT_THAT(first->waiting, ElementsAre(1));
}

TEST(ModelParts, AreRefusedForMoreThanValues) {
  TestModel model = positive_rows();
  model.node({"NoSuchOperator", {"y"}, {"z"}}).output("z");
  const auto parts = open(model.model());
  const auto first = parts->import(std::vector<bool>(8), {{"x", value(DType::kF32, {3, 2})}});
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(first.error().message, HasSubstr("no such operator"));
}

}  // namespace
}  // namespace weft::onnx
