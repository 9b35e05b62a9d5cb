// Operators that move elements: shapes by the letter of ONNX, and slices instead of gathers.

#include <limits>

#include "tests/import/onnx/importing.h"

namespace weft::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// One node on x (f32) with constant further inputs c0, c1, ….
std::string one_node(const std::string& op, const std::vector<Dim>& dims,
                     const std::vector<HostTensor>& constants,
                     const std::vector<std::string>& attributes = {}, int64_t opset = 21) {
  TestModel model;
  model.input("x", DType::kF32, dims).opset(opset);
  std::vector<std::string> inputs{"x"};
  for (size_t i = 0; i < constants.size(); ++i) {
    inputs.push_back("c" + std::to_string(i));
    model.initializer(inputs.back(), constants[i]);
  }
  return model.node({op, inputs, {"y"}, attributes}).output("y").model();
}

HostTensor ints(const std::vector<int64_t>& values) {
  return i64_tensor({static_cast<int64_t>(values.size())}, values);
}

TEST(Movement, ReshapesWithZeroAndMinusOne) {
  EXPECT_THAT(import_text(one_node("Reshape", {2, 3, 4}, {ints({0, -1})})),
              HasSubstr("reshape x : f32[2,12]"));
  EXPECT_THAT(import_error(one_node("Reshape", {2, 3, 4}, {ints({5, -1})})), HasSubstr("[5,"));
  EXPECT_THAT(import_error(one_node("Reshape", {2, 3}, {ints({-1, -1})})),
              HasSubstr("more than one"));
  EXPECT_THAT(import_text(one_node("Reshape", {0, 3}, {ints({3, 0})}, {int_attr("allowzero", 1)})),
              HasSubstr("f32[3,0]"));
}

TEST(Movement, SlicesAsPythonDoes) {
  const HostTensor x = f32_tensor({6}, {0, 1, 2, 3, 4, 5});
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto slice = [&](int64_t start, int64_t end, int64_t step) {
    return run_for_values(
        one_node("Slice", {6}, {ints({start}), ints({end}), ints({0}), ints({step})}), {{"x", x}});
  };
  EXPECT_THAT(slice(1, 4, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(slice(-2, kMost, 1), ElementsAre(4, 5));
  EXPECT_THAT(slice(0, kMost, 4), ElementsAre(0, 4));
  EXPECT_THAT(slice(-1, kLeast, -1), ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_THAT(slice(kMost, 2, -2), ElementsAre(5, 3));
  EXPECT_THAT(slice(4, 1, 1), ElementsAre());
  EXPECT_THAT(slice(0, 6, kLeast), ElementsAre());
  EXPECT_THAT(slice(5, kLeast, kLeast), ElementsAre(5));
}

TEST(Movement, TakesSliceAttributesOfOldOpsets) {
  const std::string model =
      one_node("Slice", {2, 4}, {},
               {ints_attr("starts", {1}), ints_attr("ends", {-1}), ints_attr("axes", {1})}, 9);
  EXPECT_THAT(import_text(model), HasSubstr(": f32[2,2]"));
}

TEST(Movement, PadsInEveryMode) {
  const HostTensor x = f32_tensor({4}, {1, 2, 3, 4});
  const auto pad = [&](std::string_view mode, int64_t low, int64_t high) {
    return run_for_values(one_node("Pad", {4}, {ints({low, high})}, {string_attr("mode", mode)}),
                          {{"x", x}});
  };
  EXPECT_THAT(pad("constant", 1, 2), ElementsAre(0, 1, 2, 3, 4, 0, 0));
  EXPECT_THAT(pad("constant", -1, 1), ElementsAre(2, 3, 4, 0));
  EXPECT_THAT(pad("edge", 2, 1), ElementsAre(1, 1, 1, 2, 3, 4, 4));
  EXPECT_THAT(pad("reflect", 2, 5), ElementsAre(3, 2, 1, 2, 3, 4, 3, 2, 1, 2, 3));
  EXPECT_THAT(pad("wrap", 3, 2), ElementsAre(2, 3, 4, 1, 2, 3, 4, 1, 2));
  EXPECT_THAT(pad("wrap", 2, -2), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(import_error(one_node("Pad", {4}, {ints({-3, -3})})), HasSubstr("cannot pad"));
  EXPECT_THAT(import_error(one_node("Pad", {1, 4}, {ints({0, int64_t{1} << 40, 0, 0})},
                                    {string_attr("mode", "edge")})),
              HasSubstr("too large"));
}

TEST(Movement, GathersRunsOfConstantIndicesAsSlices) {
  EXPECT_EQ(import_text(one_node("Gather", {5, 2}, {i64_tensor({}, {-1})})), R"((x: f32[5,2]) {
  v1 = slice x, start={4,0}, step={1,1} : f32[1,2]
  y = reshape v1 : f32[2]
} -> (y))");
  const HostTensor x = f32_tensor({5}, {10, 11, 12, 13, 14});
  const std::string reversed = one_node("Gather", {5}, {ints({3, 2, 1})});
  EXPECT_THAT(import_text(reversed), Not(HasSubstr("gather")));
  EXPECT_THAT(run_for_values(reversed, {{"x", x}}), ElementsAre(13, 12, 11));
  const std::string mixed = one_node("Gather", {5}, {ints({0, 3, -2, 0})});
  EXPECT_THAT(import_text(mixed), HasSubstr("gather"));
  EXPECT_THAT(run_for_values(mixed, {{"x", x}}), ElementsAre(10, 13, 13, 10));
}

TEST(Movement, WrapsNegativeIndicesThatAreNotConstant) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {3, 2})
                                .input("i", DType::kI64, {2, 2})
                                .node({"GatherND", {"x", "i"}, {"y"}})
                                .output("y")
                                .model();
  EXPECT_THAT(run_for_values(model, {{"x", f32_tensor({3, 2}, {1, 2, 3, 4, 5, 6})},
                                     {"i", i64_tensor({2, 2}, {-1, 0, 1, -1})}}),
              ElementsAre(5, 4));
}

TEST(Movement, ScattersWithEveryReduction) {
  const auto scatter = [&](std::string_view reduction) {
    const std::string model =
        TestModel()
            .input("x", DType::kF32, {3})
            .initializer("i", ints({-1, 0, 2}))
            .initializer("u", f32_tensor({3}, {5, 7, 2}))
            .node(
                {"ScatterElements", {"x", "i", "u"}, {"y"}, {string_attr("reduction", reduction)}})
            .output("y")
            .model();
    return run_for_values(model, {{"x", f32_tensor({3}, {10, 20, 3})}});
  };
  EXPECT_THAT(scatter("none"), ElementsAre(7, 20, 2));
  EXPECT_THAT(scatter("add"), ElementsAre(17, 20, 10));
  EXPECT_THAT(scatter("mul"), ElementsAre(70, 20, 30));
  EXPECT_THAT(scatter("max"), ElementsAre(10, 20, 5));
  EXPECT_THAT(scatter("min"), ElementsAre(7, 20, 2));
}

TEST(Movement, SplitsUnevenly) {
  const auto model = [](const std::string& output, std::vector<std::string> attributes) {
    return TestModel()
        .input("x", DType::kF32, {7})
        .node({"Split", {"x"}, {"a", "b", "c"}, std::move(attributes)})
        .output(output)
        .model();
  };
  const HostTensor x = f32_tensor({7}, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(run_for_values(model("c", {int_attr("num_outputs", 3)}), {{"x", x}}), ElementsAre(7));
  EXPECT_THAT(import_error(model("c", {int_attr("num_outputs", 4)})), HasSubstr("num_outputs"));
}

TEST(Movement, RepeatsByTile) {
  EXPECT_THAT(
      run_for_values(one_node("Tile", {1, 2}, {ints({2, 3})}), {{"x", f32_tensor({1, 2}, {1, 2})}}),
      ElementsAre(1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2));
  EXPECT_THAT(import_error(one_node("Tile", {4}, {ints({std::numeric_limits<int64_t>::max()})})),
              HasSubstr("too large"));
}

TEST(Movement, RangesCountWithoutRounding) {
  const auto range = [](const HostTensor& start, const HostTensor& limit, const HostTensor& delta) {
    return TestModel()
        .initializer("a", start)
        .initializer("b", limit)
        .initializer("c", delta)
        .node({"Range", {"a", "b", "c"}, {"y"}})
        .output("y", start.dtype())
        .model();
  };
  const auto i = [](int64_t value) { return i64_tensor({}, {value}); };
  const auto f = [](float value) { return f32_tensor({}, {value}); };
  EXPECT_THAT(run_for_values(range(i(10), i(3), i(-3)), {}), ElementsAre(10, 7, 4));
  EXPECT_THAT(run_for_values(range(f(1), f(2), f(0.5f)), {}), ElementsAre(1, 1.5));
  EXPECT_THAT(import_error(range(i(0), i(3), i(0))), HasSubstr("delta"));
  EXPECT_THAT(import_error(range(f(0), f(1), f(0))), HasSubstr("too long"));
  EXPECT_THAT(import_error(range(i(0), i(std::numeric_limits<int64_t>::max()), i(1))),
              HasSubstr("too long"));
}

TEST(Movement, FindsNonZerosOnlyOfConstants) {
  const std::string known = TestModel()
                                .initializer("x", f32_tensor({2, 2}, {1, 0, 0, 3}))
                                .node({"NonZero", {"x"}, {"y"}})
                                .output("y", DType::kI64)
                                .model();
  EXPECT_THAT(run_for_values(known, {}), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(import_error(one_node("NonZero", {2, 2}, {}), {}, ErrorCode::kUnsupported),
              HasSubstr("NonZero"));
}

}  // namespace
}  // namespace weft::onnx
