// Binding, naming, ordering and refusing: what the importer does around the operators.

#include "import/onnx/import_onnx.h"

#include "tests/import/onnx/importing.h"

namespace weft::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ImportOnnx, TranslatesNodesAndKeepsNames) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2, 3})
                                .node({"Exp", {"x"}, {"e"}})
                                .node({"Neg", {"e"}, {"y"}})
                                .output("y")
                                .model();
  EXPECT_EQ(import_text(model), R"((x: f32[2,3]) {
  e = exp x : f32[2,3]
  y = neg e : f32[2,3]
} -> (y))");
}

TEST(ImportOnnx, RecordsTheModelsNodes) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2})
                                .node({"Exp", {"x"}, {"a"}, {}, "first"})
                                .node({"Neg", {"a"}, {"b"}, {}, "twice"})
                                .node({"Neg", {"b"}, {"c"}, {}, "twice"})
                                .node({"Abs", {"c"}, {"y"}})
                                .output("y")
                                .model();
  const auto imported = import_bytes(model);
  ASSERT_TRUE(imported.ok());
  std::vector<std::string> names;
  for (const Origin& origin : imported->graph.origins) names.push_back(origin.name);
  EXPECT_THAT(names, ElementsAre("first", "Neg#1", "Neg#2", "Abs#3"));
  EXPECT_EQ(imported->node_count, 4);
  EXPECT_EQ(imported->opset, 21);
}

std::string dynamic_model() {
  return TestModel()
      .input("x", DType::kF32, {"batch", 3, "?"})
      .input("z", DType::kF32, {"batch", 3, "width"})
      .node({"Add", {"x", "z"}, {"y"}})
      .output("y")
      .model();
}

TEST(ImportOnnx, ListsAllUnboundDimensionsInOneError) {
  EXPECT_THAT(import_error(dynamic_model()), HasSubstr("batch, x.2, width"));
}

TEST(ImportOnnx, BindsDimensionsByNameAndByPosition) {
  ImportOptions options;
  options.bind = {{"batch", 2}, {"x.2", 5}, {"width", 5}};
  EXPECT_THAT(import_text(dynamic_model(), options), HasSubstr("(x: f32[2,3,5], z: f32[2,3,5])"));
}

TEST(ImportOnnx, BindsDimensionsFromGivenShapesForOtherInputs) {
  ImportOptions options;
  options.shapes["x"] = {7, 3, 1};
  options.bind["width"] = 4;
  EXPECT_THAT(import_text(dynamic_model(), options), HasSubstr("z: f32[7,3,4]"));
}

TEST(ImportOnnx, RefusesContradictingAndUnknownOptions) {
  ImportOptions options;
  options.shapes["x"] = {7, 3, 1};
  options.bind = {{"batch", 2}, {"width", 4}};
  EXPECT_THAT(import_error(dynamic_model(), options), HasSubstr("dimension 'batch' is 2"));
  options.bind = {{"bach", 2}};
  EXPECT_THAT(import_error(dynamic_model(), options), HasSubstr("no dimension 'bach'"));
  options = {};
  options.shapes["x"] = {7, 4, 1};
  EXPECT_THAT(import_error(dynamic_model(), options), HasSubstr("axis 1 of input 'x' is 3"));
  options = {};
  options.shapes["w"] = {7};
  EXPECT_THAT(import_error(dynamic_model(), options), HasSubstr("no input 'w'"));
  options = {};
  options.known_inputs["x"] = i64_tensor({1, 3, 1}, {1, 2, 3});
  EXPECT_THAT(import_error(dynamic_model(), options), HasSubstr("'x' is f32 in the model and i64"));
}

TEST(ImportOnnx, ListsEveryUnsupportedNodeInOneError) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2})
                                .node({"Frobnicate", {"x"}, {"a"}, {}, "one", "my.domain"})
                                .node({"Neg", {"a"}, {"b"}})
                                .node({"Twist", {"b"}, {"c"}, {}, "two"})
                                .node({"Scan", {"x"}, {"d"}, {}, "three"})
                                .node({"Unused", {"x"}, {"never"}})
                                .node({"Add", {"c", "d"}, {"y"}})
                                .output("y")
                                .opset(8)
                                .model();
  const std::string message = import_error(model, {}, ErrorCode::kUnsupported);
  EXPECT_THAT(message, HasSubstr("Frobnicate 'one' (my.domain 1)"));
  EXPECT_THAT(message, HasSubstr("Twist 'two' (ai.onnx 8)"));
  EXPECT_THAT(message, HasSubstr("Scan 'three' (ai.onnx 8): the Scan of opset 8"));
  EXPECT_THAT(message, Not(HasSubstr("Unused")));
  EXPECT_THAT(message, Not(HasSubstr("Neg")));
}

TEST(ImportOnnx, SortsNodesThatTheFileDoesNot) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2})
                                .node({"Neg", {"a"}, {"y"}})
                                .node({"Exp", {"x"}, {"a"}})
                                .output("y")
                                .model();
  EXPECT_THAT(import_text(model), HasSubstr("y = neg a"));
}

TEST(ImportOnnx, RefusesBrokenNames) {
  const auto with = [](const TestNode& node) {
    return import_error(TestModel()
                            .input("x", DType::kF32, {2})
                            .node({"Exp", {"x"}, {"a"}, {}, "exp"})
                            .node(node)
                            .output("y")
                            .model());
  };
  EXPECT_THAT(with({"Neg", {"nowhere"}, {"y"}, {}, "neg"}),
              HasSubstr("Neg 'neg': nothing makes the value 'nowhere'"));
  EXPECT_THAT(with({"Add", {"a", "y"}, {"y"}, {}, "add"}), HasSubstr("depends on its own result"));
  EXPECT_THAT(with({"Add", {"a", "a"}, {"y", "a"}, {}, "add"}), HasSubstr("'a' is made twice"));
  EXPECT_THAT(with({"Add", {"a", "a"}, {"y", "x"}, {}, "add"}), HasSubstr("'x' is made twice"));
  EXPECT_THAT(with({"Neg", {"a"}, {"b"}, {}, "neg"}), HasSubstr("'y'"));
}

TEST(ImportOnnx, RefusesTwoOutputsOfOneName) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2})
                                .node({"Neg", {"x"}, {"y"}})
                                .output("y")
                                .output("y")
                                .model();
  EXPECT_THAT(import_error(model), HasSubstr("two outputs are called 'y'"));
}

TEST(ImportOnnx, RefusesWhatDoesNotFit) {
  const auto with = [](const TestNode& node) {
    return import_error(TestModel()
                            .input("x", DType::kF32, {2, 3})
                            .input("i", DType::kI64, {4})
                            .node(node)
                            .output("y")
                            .model());
  };
  EXPECT_THAT(with({"Add", {"x", "i"}, {"y"}}), HasSubstr("differ in type"));
  EXPECT_THAT(with({"Add", {"x"}, {"y"}}), HasSubstr("input 1 is missing"));
  EXPECT_THAT(with({"Transpose", {"x"}, {"y"}, {ints_attr("perm", {0, 0})}}),
              HasSubstr("not a permutation"));
  EXPECT_THAT(with({"Concat", {"x", "x"}, {"y"}, {int_attr("axis", 7)}}), HasSubstr("axis 7"));
  EXPECT_THAT(with({"Cast", {"x"}, {"y"}, {float_attr("to", 1)}}), HasSubstr("wrong type"));
  EXPECT_THAT(with({"Cast", {"x"}, {"y"}, {int_attr("to", 77)}}), HasSubstr("type 77"));
}

TEST(ImportOnnx, BelievesNoImpossibleShape) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_THAT(import_error(TestModel()
                               .input("x", DType::kF32, {huge, huge})
                               .node({"Neg", {"x"}, {"y"}})
                               .output("y")
                               .model()),
              HasSubstr("impossible shape"));
  // A kilobyte of model cannot make the importer allocate what it claims.
  const std::string model =
      TestModel()
          .input("x", DType::kF32, {1})
          .initializer("shape", i64_tensor({2}, {int64_t{1} << 19, int64_t{1} << 18}))
          .node({"ConstantOfShape", {"shape"}, {"c"}})
          .node({"Exp", {"c"}, {"e"}})
          .node({"Reshape", {"x", "e2"}, {"y"}})
          .node({"Cast", {"e"}, {"e2"}, {int_attr("to", 7)}})
          .output("y")
          .model();
  EXPECT_THAT(import_error(model, {}, ErrorCode::kUnsupported), HasSubstr("too large to compute"));
}

TEST(ImportOnnx, FoldsShapeArithmetic) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {"n", 4, 6})
                                .initializer("zero", i64_tensor({}, {0}))
                                .initializer("minus", i64_tensor({1}, {-1}))
                                .initializer("axis", i64_tensor({1}, {0}))
                                .node({"Shape", {"x"}, {"s"}})
                                .node({"Gather", {"s", "zero"}, {"n"}})
                                .node({"Unsqueeze", {"n", "axis"}, {"n1"}})
                                .node({"Concat", {"n1", "minus"}, {"to"}, {int_attr("axis", 0)}})
                                .node({"Reshape", {"x", "to"}, {"y"}})
                                .output("y")
                                .model();
  ImportOptions options;
  options.bind["n"] = 5;
  EXPECT_EQ(import_text(model, options), R"((x: f32[5,4,6]) {
  y = reshape x : f32[5,24]
} -> (y))");
}

std::string reshape_by_input() {
  return TestModel()
      .input("x", DType::kF32, {2, 6})
      .input("to", DType::kI64, {2})
      .node({"Reshape", {"x", "to"}, {"y"}})
      .output("y")
      .model();
}

TEST(ImportOnnx, SpecialisesOnAnInputThatMustBeConstant) {
  ImportOptions options;
  options.known_inputs["to"] = i64_tensor({2}, {4, 3});
  const auto imported = import_bytes(reshape_by_input(), options);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(imported->graph.inputs.size(), 1u);
  ASSERT_EQ(imported->inputs.size(), 2u);
  EXPECT_EQ(imported->inputs[0].graph_input, 0);
  EXPECT_FALSE(imported->inputs[0].specialised.has_value());
  EXPECT_EQ(imported->inputs[1].graph_input, -1);
  EXPECT_THAT(values_of(*imported->inputs[1].specialised), ElementsAre(4, 3));
}

TEST(ImportOnnx, NamesTheInputThatMustBeConstant) {
  EXPECT_THAT(import_error(reshape_by_input(), {}, ErrorCode::kUnsupported),
              HasSubstr("the value of input 'to'"));
}

TEST(ImportOnnx, FindsSafeRangesOfIndices) {
  HostTensor table(DType::kF32, {10, 2});
  for (int i = 0; i < 20; ++i) table.set_double(i, i * 0.5);
  const std::string model = TestModel()
                                .input("ids", DType::kI64, {3})
                                .input("other", DType::kI64, {3})
                                .initializer("table", table)
                                .initializer("axis", i64_tensor({1}, {0}))
                                .node({"Unsqueeze", {"ids", "axis"}, {"u"}})
                                .node({"Gather", {"table", "u"}, {"g"}})
                                .node({"Cast", {"other"}, {"o"}, {int_attr("to", 1)}})
                                .node({"ReduceSum", {"o"}, {"r"}, {int_attr("keepdims", 0)}})
                                .node({"Add", {"g", "r"}, {"y"}})
                                .output("y")
                                .model();
  const auto imported = import_bytes(model);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(imported->inputs[0].range, (Interval{0, 9}));
  EXPECT_EQ(imported->inputs[1].range, std::nullopt);
}

TEST(ImportOnnx, TakesInitializersForInputsOfTheSameName) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2})
                                .input("w", DType::kF32, {2})
                                .initializer("w", f32_tensor({2}, {1.5f, -2}))
                                .node({"Mul", {"x", "w"}, {"y"}})
                                .output("y")
                                .model();
  const auto imported = import_bytes(model);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(imported->inputs.size(), 1u);
  EXPECT_THAT(run_for_values(model, {{"x", f32_tensor({2}, {4, 5})}}), ElementsAre(6, -10));
}

TEST(ImportOnnx, GivesAnInputAsAnOutput) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2})
                                .node({"Identity", {"x"}, {"y"}})
                                .output("y")
                                .output("x")
                                .model();
  const auto imported = import_bytes(model);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_THAT(imported->graph.output_names, ElementsAre("y", "x"));
  EXPECT_EQ(imported->graph.outputs[0], imported->graph.outputs[1]);
}

TEST(ImportOnnx, RefusesOldAndMissingOpsets) {
  const auto model = [](int64_t opset) {
    return TestModel()
        .input("x", DType::kF32, {2})
        .node({"Neg", {"x"}, {"y"}})
        .output("y")
        .opset(opset)
        .model();
  };
  EXPECT_THAT(import_error(model(6), {}, ErrorCode::kUnsupported), HasSubstr("opset 6"));
  EXPECT_THAT(import_error(model(-3)), HasSubstr("opset -3"));
  EXPECT_THAT(import_text(model(7)), HasSubstr("neg"));
}

TEST(ImportOnnx, InlinesFunctionsOfTheModel) {
  // scale_by(x) = x * factor, where factor is an attribute with a default of 3.
  const TestNode constant{"Constant", {}, {"f"}, {ref_attr("value_float", "factor", 1)}};
  const TestNode mul{"Mul", {"x", "f"}, {"y"}};
  std::string function, opset;
  protozero::pbf_writer(opset).add_int64(2, 21);
  protozero::pbf_writer writer(function);
  writer.add_string(1, "scale_by");
  writer.add_string(4, "x");
  writer.add_string(5, "y");
  writer.add_message(11, float_attr("factor", 3));
  writer.add_message(7, constant.message());
  writer.add_message(7, mul.message());
  writer.add_message(9, opset);
  writer.add_string(10, "mine");
  const std::string model =
      TestModel()
          .input("x", DType::kF32, {2})
          .node({"scale_by", {"x"}, {"a"}, {}, "call", "mine"})
          .node({"scale_by", {"a"}, {"y"}, {float_attr("factor", 0.5f)}, "again", "mine"})
          .output("y")
          .function(function)
          .model();
  EXPECT_THAT(run_for_values(model, {{"x", f32_tensor({2}, {2, 4})}}), ElementsAre(3, 6));
  const auto imported = import_bytes(model);
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->graph.origins.back().name, "again/Mul#1");
}

TEST(ImportOnnx, RefusesFunctionsWithoutEnd) {
  std::string function, opset;
  protozero::pbf_writer(opset).add_int64(2, 21);
  protozero::pbf_writer writer(function);
  writer.add_string(1, "again");
  writer.add_string(4, "x");
  writer.add_string(5, "y");
  writer.add_message(7, TestNode{"again", {"x"}, {"y"}, {}, "", "mine"}.message());
  writer.add_message(9, opset);
  writer.add_string(10, "mine");
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2})
                                .node({"again", {"x"}, {"y"}, {}, "", "mine"})
                                .output("y")
                                .function(function)
                                .model();
  EXPECT_THAT(import_error(model), HasSubstr("too deeply"));
}

TEST(ImportOnnx, SaysWhatIsWrongWithTheFile) {
  EXPECT_THAT(import_onnx("/no/such/model.onnx").error().message, HasSubstr("No such file"));
  EXPECT_THAT(import_onnx("/tmp").error().message, HasSubstr("directory"));
  EXPECT_THAT(import_error(""), HasSubstr("empty"));
  EXPECT_THAT(import_error("no model at all"), HasSubstr("not"));
}

}  // namespace
}  // namespace weft::onnx
