// If, Loop and Scan: pasted, unrolled, or as regions.

#include "tests/import/onnx/importing.h"

namespace weft::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// y = condition ? x + captured : x * captured
std::string if_model(bool constant_condition) {
  const std::string then = TestModel().node({"Add", {"x", "w"}, {"t"}}).output("t").graph();
  const std::string otherwise = TestModel().node({"Mul", {"x", "w"}, {"e"}}).output("e").graph();
  TestModel model;
  model.input("x", DType::kF32, {2});
  if (constant_condition) {
    model.initializer("c", bool_tensor(false));
  } else {
    model.input("c", DType::kBool, {});
  }
  return model.initializer("w", f32_tensor({2}, {3, 5}))
      .node({"If",
             {"c"},
             {"y"},
             {graph_attr("then_branch", then), graph_attr("else_branch", otherwise)}})
      .output("y")
      .model();
}

TEST(ControlFlow, PastesTheBranchOfAConstantCondition) {
  EXPECT_EQ(import_text(if_model(true)), R"((x: f32[2]) {
  w = constant {3, 5} : f32[2]
  y = mul x, w : f32[2]
} -> (y))");
}

TEST(ControlFlow, KeepsAnIfThatDataDecides) {
  EXPECT_THAT(import_text(if_model(false)), HasSubstr("= if "));
  const HostTensor x = f32_tensor({2}, {7, 11});
  EXPECT_THAT(run_for_values(if_model(false), {{"x", x}, {"c", bool_tensor(true)}}),
              ElementsAre(10, 16));
  EXPECT_THAT(run_for_values(if_model(false), {{"x", x}, {"c", bool_tensor(false)}}),
              ElementsAre(21, 55));
}

TEST(ControlFlow, SpecialisesAnIfWhoseBranchesDiffer) {
  const std::string then = TestModel().node({"Neg", {"x"}, {"t"}}).output("t").graph();
  const std::string otherwise =
      TestModel().node({"Concat", {"x", "x"}, {"e"}, {int_attr("axis", 0)}}).output("e").graph();
  const std::string model =
      TestModel()
          .input("x", DType::kF32, {2})
          .input("c", DType::kBool, {})
          .node({"If",
                 {"c"},
                 {"y"},
                 {graph_attr("then_branch", then), graph_attr("else_branch", otherwise)}})
          .output("y")
          .model();
  EXPECT_THAT(import_error(model, {}, ErrorCode::kUnsupported),
              HasSubstr("different types: f32[2] and f32[4]"));
  const HostTensor x = f32_tensor({2}, {7, 11});
  EXPECT_THAT(run_for_values(model, {{"x", x}, {"c", bool_tensor(false)}}),
              ElementsAre(7, 11, 7, 11));
}

/// (i, go, s) -> (condition, s * 2 + i, slice s)
std::string loop_body(const std::string& condition) {
  return TestModel()
      .input("i", DType::kI64, {})
      .input("go", DType::kBool, {})
      .input("s", DType::kF32, {2})
      .node({"Cast", {"i"}, {"fi"}, {int_attr("to", 1)}})
      .node({"Constant", {}, {"two"}, {float_attr("value_float", 2)}})
      .node({"Mul", {"s", "two"}, {"d"}})
      .node({"Add", {"d", "fi"}, {"next"}})
      .node({"Constant", {}, {"limit"}, {float_attr("value_float", 20)}})
      .node({"ReduceMax", {"next"}, {"m"}, {int_attr("keepdims", 0)}})
      .node({"Less", {"m", "limit"}, {"small"}})
      .node({"Identity", {"go"}, {"same"}})
      .node({"Identity", {"s"}, {"slice"}})
      .output(condition, DType::kBool)
      .output("next")
      .output("slice")
      .graph();
}

std::string counted_loop(int64_t count) {
  return TestModel()
      .input("s0", DType::kF32, {2})
      .initializer("count", i64_tensor({}, {count}))
      .initializer("true", bool_tensor(true))
      .node({"Loop",
             {"count", "true", "s0"},
             {"last", "all"},
             {graph_attr("body", loop_body("same"))}})
      .output("last")
      .output("all")
      .model();
}

TEST(ControlFlow, MakesAScanOfACountedLoop) {
  const std::string text = import_text(counted_loop(3));
  EXPECT_THAT(text, HasSubstr("= scan "));
  const std::vector<HostTensor> outputs =
      run_model(counted_loop(3), {{"s0", f32_tensor({2}, {1, 2})}});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(values_of(outputs[0]), ElementsAre(12, 20));  // 1 2 -> 2 4 -> 5 9 -> 12 20
  EXPECT_THAT(values_of(outputs[1]), ElementsAre(1, 2, 2, 4, 5, 9));
  EXPECT_EQ(outputs[1].shape(), (Shape{3, 2}));
}

TEST(ControlFlow, MakesAWhileOfALoopThatDataEnds) {
  // Without the slices, whose number would not be known.
  std::string body = TestModel()
                         .input("i", DType::kI64, {})
                         .input("go", DType::kBool, {})
                         .input("s", DType::kF32, {})
                         .node({"Add", {"s", "s"}, {"next"}})
                         .node({"Less", {"next", "limit"}, {"small"}})
                         .output("small", DType::kBool)
                         .output("next")
                         .graph();
  const std::string model =
      TestModel()
          .input("s0", DType::kF32, {})
          .input("limit", DType::kF32, {})
          .node({"Loop", {"", "", "s0"}, {"last"}, {graph_attr("body", body)}})
          .output("last")
          .model();
  EXPECT_THAT(import_text(model), HasSubstr("= while "));
  const auto run = [&](float limit) {
    return run_for_values(model, {{"s0", f32_tensor({}, {3})}, {"limit", f32_tensor({}, {limit})}});
  };
  EXPECT_THAT(run(20), ElementsAre(24));
  EXPECT_THAT(run(25), ElementsAre(48));
}

/// TensorFlow's loops over time: a counter of their own, compared as floats, and no trip count.
TEST(ControlFlow, CountsTheIterationsOfACounterOfItsOwn) {
  const std::string body = TestModel()
                               .input("i", DType::kI64, {})
                               .input("go", DType::kBool, {})
                               .input("s", DType::kF32, {2})
                               .input("time", DType::kI64, {})
                               .input("steps", DType::kI64, {})
                               .initializer("two", i64_tensor({}, {2}))
                               .node({"Add", {"time", "two"}, {"next_time"}})
                               .node({"Cast", {"next_time"}, {"t"}, {int_attr("to", 1)}})
                               .node({"Cast", {"steps"}, {"n"}, {int_attr("to", 1)}})
                               .node({"Less", {"t", "n"}, {"more"}})
                               .node({"Add", {"s", "x"}, {"sum"}})
                               .node({"Mul", {"sum", "s"}, {"slice"}})
                               .output("more", DType::kBool)
                               .output("sum")
                               .output("next_time", DType::kI64)
                               .output("steps", DType::kI64)
                               .output("slice")
                               .graph();
  const auto model = [&](int64_t first, std::optional<int64_t> most) {
    TestModel out;
    out.input("x", DType::kF32, {2})
        .initializer("s0", f32_tensor({2}, {1, 2}))
        .initializer("true", bool_tensor(true))
        .initializer("first", i64_tensor({}, {first}))
        .node({"Shape", {"x"}, {"shape"}})
        .initializer("ones", i64_tensor({1}, {5}))
        .node({"Mul", {"shape", "ones"}, {"ten"}})
        .initializer("scalar", i64_tensor({0}, {}))
        .node({"Reshape", {"ten", "scalar"}, {"steps"}});
    if (most) out.initializer("most", i64_tensor({}, {*most}));
    return out
        .node({"Loop",
               {most ? "most" : "", "true", "s0", "first", "steps"},
               {"last", "time", "n", "all"},
               {graph_attr("body", body)}})
        .output("last")
        .output("time", DType::kI64)
        .output("all")
        .model();
  };
  const auto run = [&](const std::string& m) {
    EXPECT_THAT(import_text(m), HasSubstr("= scan "));
    return run_model(m, {{"x", f32_tensor({2}, {1, 3})}});
  };
  // From 3 in twos to 10: 5, 7, 9, 11.
  std::vector<HostTensor> outputs = run(model(3, std::nullopt));
  EXPECT_THAT(values_of(outputs[0]), ElementsAre(5, 14));
  EXPECT_EQ(outputs[1].at_int(0), 11);
  EXPECT_EQ(outputs[2].shape(), (Shape{4, 2}));
  EXPECT_THAT(values_of(outputs[2]), ElementsAre(2, 10, 6, 40, 12, 88, 20, 154));
  outputs = run(model(3, 2));
  EXPECT_EQ(outputs[2].shape(), (Shape{2, 2}));
  // The body runs once whatever its own condition says then.
  outputs = run(model(70, 100));
  EXPECT_EQ(outputs[2].shape(), (Shape{1, 2}));
}

TEST(ControlFlow, DoesNotCountForEver) {
  const std::string body = TestModel()
                               .input("i", DType::kI64, {})
                               .input("go", DType::kBool, {})
                               .input("s", DType::kF32, {2})
                               .initializer("none", i64_tensor({}, {0}))
                               .node({"GreaterOrEqual", {"i", "none"}, {"more"}})
                               .node({"Add", {"s", "s"}, {"next"}})
                               .output("more", DType::kBool)
                               .output("next")
                               .output("s")
                               .graph();
  const std::string model =
      TestModel()
          .input("s0", DType::kF32, {2})
          .initializer("true", bool_tensor(true))
          .node({"Loop", {"", "true", "s0"}, {"last", "all"}, {graph_attr("body", body)}, "loop"})
          .output("all")
          .model();
  EXPECT_THAT(import_error(model, {}, ErrorCode::kUnsupported), HasSubstr("Loop 'loop'"));
}

TEST(ControlFlow, RefusesSlicesOfALoopThatDataEnds) {
  const std::string model = TestModel()
                                .input("s0", DType::kF32, {2})
                                .initializer("count", i64_tensor({}, {3}))
                                .node({"Loop",
                                       {"count", "", "s0"},
                                       {"last", "all"},
                                       {graph_attr("body", loop_body("small"))},
                                       "loop"})
                                .output("all")
                                .model();
  EXPECT_THAT(import_error(model, {}, ErrorCode::kUnsupported), HasSubstr("Loop 'loop'"));
}

TEST(ControlFlow, UnrollsALoopWhoseValuesGrow) {
  const std::string body = TestModel()
                               .input("i", DType::kI64, {})
                               .input("go", DType::kBool, {})
                               .input("s", DType::kF32, {})
                               .node({"Concat", {"s", "x"}, {"next"}, {int_attr("axis", 0)}})
                               .output("go", DType::kBool)
                               .output("next")
                               .graph();
  const std::string model =
      TestModel()
          .input("x", DType::kF32, {2})
          .initializer("count", i64_tensor({}, {2}))
          .node({"Loop", {"count", "", "x"}, {"y"}, {graph_attr("body", body)}})
          .output("y")
          .model();
  EXPECT_THAT(import_text(model), Not(HasSubstr("scan")));
  EXPECT_THAT(run_for_values(model, {{"x", f32_tensor({2}, {1, 2})}}),
              ElementsAre(1, 2, 1, 2, 1, 2));
}

/// A running sum of the slices of x, and each sum.
std::string scan_model(std::vector<std::string> attributes) {
  const std::string body = TestModel()
                               .input("sum", DType::kF32, {})
                               .input("slice", DType::kF32, {})
                               .node({"Add", {"sum", "slice"}, {"next"}})
                               .node({"Identity", {"next"}, {"each"}})
                               .output("next")
                               .output("each")
                               .graph();
  attributes.push_back(graph_attr("body", body));
  attributes.push_back(int_attr("num_scan_inputs", 1));
  return TestModel()
      .input("s0", DType::kF32, {2})
      .input("x", DType::kF32, {2, 3})
      .node({"Scan", {"s0", "x"}, {"last", "sums"}, attributes})
      .output("sums")
      .model();
}

TEST(ControlFlow, ScansAlongAnyAxisInAnyDirection) {
  const std::map<std::string, HostTensor> inputs{{"s0", f32_tensor({2}, {10, 20})},
                                                 {"x", f32_tensor({2, 3}, {1, 2, 3, 4, 5, 6})}};
  EXPECT_THAT(run_for_values(scan_model({ints_attr("scan_input_axes", {1})}), inputs),
              ElementsAre(11, 24, 13, 29, 16, 35));
  EXPECT_THAT(run_for_values(scan_model({ints_attr("scan_input_axes", {-1}),
                                         ints_attr("scan_output_axes", {1})}),
                             inputs),
              ElementsAre(11, 13, 16, 24, 29, 35));
  EXPECT_THAT(run_for_values(scan_model({ints_attr("scan_input_axes", {1}),
                                         ints_attr("scan_input_directions", {1}),
                                         ints_attr("scan_output_directions", {1})}),
                             inputs),
              ElementsAre(16, 35, 15, 31, 13, 26));
}

TEST(ControlFlow, NamesUnsupportedNodesOfSubgraphs) {
  const std::string then =
      TestModel().node({"Twist", {"x"}, {"t"}, {}, "inner"}).output("t").graph();
  const std::string otherwise = TestModel().node({"Neg", {"x"}, {"e"}}).output("e").graph();
  const std::string model =
      TestModel()
          .input("x", DType::kF32, {2})
          .input("c", DType::kBool, {})
          .node({"If",
                 {"c"},
                 {"y"},
                 {graph_attr("then_branch", then), graph_attr("else_branch", otherwise)},
                 "outer"})
          .output("y")
          .model();
  EXPECT_THAT(import_error(model, {}, ErrorCode::kUnsupported), HasSubstr("Twist 'outer/inner'"));
}

}  // namespace
}  // namespace weft::onnx
