// Sequences of tensors vanish while importing.

#include "tests/import/onnx/importing.h"

namespace weft::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sequence, SplitsEditsAndJoins) {
  const std::string model =
      TestModel()
          .input("x", DType::kF32, {5, 2})
          .initializer("two", i64_tensor({}, {2}))
          .initializer("last", i64_tensor({}, {-1}))
          .initializer("first", i64_tensor({}, {0}))
          .node({"SplitToSequence", {"x", "two"}, {"s"}})  // rows 01, 23, 4
          .node({"SequenceAt", {"s", "last"}, {"tail"}})
          .node({"SequenceErase", {"s", "first"}, {"fewer"}})
          .node({"SequenceInsert", {"fewer", "tail", "first"}, {"more"}})  // rows 4, 23, 4
          .node({"ConcatFromSequence", {"more"}, {"y"}, {int_attr("axis", 0)}})
          .node({"SequenceLength", {"more"}, {"n"}})
          .output("y")
          .output("n", DType::kI64)
          .model();
  const std::vector<HostTensor> outputs =
      run_model(model, {{"x", f32_tensor({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(values_of(outputs[0]), ElementsAre(8, 9, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(values_of(outputs[1]), ElementsAre(3));
}

TEST(Sequence, GrowsInALoop) {
  const std::string body = TestModel()
                               .input("i", DType::kI64, {})
                               .input("go", DType::kBool, {})
                               .input("s", DType::kF32, {})
                               .node({"Cast", {"i"}, {"fi"}, {int_attr("to", 1)}})
                               .node({"Mul", {"x", "fi"}, {"scaled"}})
                               .node({"SequenceInsert", {"s", "scaled"}, {"next"}})
                               .output("go", DType::kBool)
                               .output("next")
                               .graph();
  const std::string model =
      TestModel()
          .input("x", DType::kF32, {2})
          .initializer("count", i64_tensor({}, {3}))
          .node({"SequenceEmpty", {}, {"none"}})
          .node({"Loop", {"count", "", "none"}, {"all"}, {graph_attr("body", body)}})
          .node({"ConcatFromSequence",
                 {"all"},
                 {"y"},
                 {int_attr("axis", 0), int_attr("new_axis", 1)}})
          .output("y")
          .model();
  const std::vector<HostTensor> outputs = run_model(model, {{"x", f32_tensor({2}, {5, 7})}});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].shape(), (Shape{3, 2}));
  EXPECT_THAT(values_of(outputs[0]), ElementsAre(0, 0, 5, 7, 10, 14));
}

TEST(Sequence, IsNoTensorAndNoOutput) {
  const auto with = [](const TestNode& node) {
    return TestModel()
        .input("x", DType::kF32, {2})
        .node({"SequenceConstruct", {"x", "x"}, {"s"}})
        .node(node)
        .output("y")
        .model();
  };
  EXPECT_THAT(import_error(with({"Neg", {"s"}, {"y"}})), HasSubstr("input 0 is a sequence"));
  EXPECT_THAT(import_error(with({"SequenceLength", {"x"}, {"y"}})), HasSubstr("not a sequence"));
  EXPECT_THAT(import_error(with({"Identity", {"s"}, {"y"}}), {}, ErrorCode::kUnsupported),
              HasSubstr("output 'y' is a sequence"));
}

}  // namespace
}  // namespace weft::onnx
