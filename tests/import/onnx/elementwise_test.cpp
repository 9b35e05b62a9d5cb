// Elementwise operators where ONNX differs from the scalar operation of the same name.

#include <cmath>
#include <limits>

#include "tests/import/onnx/importing.h"

namespace weft::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostTensor i32_tensor(Shape shape, const std::vector<int>& values) {
  HostTensor tensor(DType::kI32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_int(static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::vector<double> run_binary(const std::string& op, const HostTensor& a, const HostTensor& b,
                               const std::vector<std::string>& attributes = {}) {
  const auto dims = [](const HostTensor& t) {
    return std::vector<Dim>(t.shape().begin(), t.shape().end());
  };
  const std::string model = TestModel()
                                .input("a", a.dtype(), dims(a))
                                .input("b", b.dtype(), dims(b))
                                .node({op, {"a", "b"}, {"y"}, attributes})
                                .output("y")
                                .model();
  return run_for_values(model, {{"a", a}, {"b", b}});
}

TEST(Elementwise, BroadcastsBothWays) {
  EXPECT_THAT(run_binary("Sub", f32_tensor({2, 1}, {10, 20}), f32_tensor({3}, {1, 2, 3})),
              ElementsAre(9, 8, 7, 19, 18, 17));
}

TEST(Elementwise, ModHasTheSignOfTheDivisor) {
  const HostTensor a = i32_tensor({4}, {-7, 7, -7, 6}), b = i32_tensor({4}, {3, -3, -3, 3});
  EXPECT_THAT(run_binary("Mod", a, b), ElementsAre(2, -2, -1, 0));
  EXPECT_THAT(run_binary("Mod", a, b, {int_attr("fmod", 1)}), ElementsAre(-1, 1, -1, 0));
}

TEST(Elementwise, PowKeepsTheTypeOfTheBase) {
  EXPECT_THAT(run_binary("Pow", i32_tensor({2}, {3, 9}), f32_tensor({2}, {2, 0.5f})),
              ElementsAre(9, 3));
  EXPECT_THAT(run_binary("Pow", f32_tensor({2}, {2, 4}), i32_tensor({2}, {3, -1})),
              ElementsAre(8, 0.25));
}

TEST(Elementwise, ShiftsRightByAnyAmount) {
  const HostTensor a = i32_tensor({4}, {-8, -8, -8, 8}), b = i32_tensor({4}, {1, 40, -1, 40});
  EXPECT_THAT(run_binary("BitShift", a, b, {string_attr("direction", "RIGHT")}),
              ElementsAre(-4, -1, -1, 0));
}

TEST(Elementwise, DivisionOfIntegersTruncates) {
  EXPECT_THAT(run_binary("Div", i32_tensor({3}, {7, -7, 7}), i32_tensor({3}, {2, 2, -2})),
              ElementsAre(3, -3, -3));
}

TEST(Elementwise, ClipsByOptionalBounds) {
  const auto clip = [](std::vector<std::string> bounds) {
    std::vector<std::string> inputs{"x"};
    inputs.insert(inputs.end(), bounds.begin(), bounds.end());
    const std::string model = TestModel()
                                  .input("x", DType::kF32, {4})
                                  .initializer("lo", f32_tensor({}, {-1}))
                                  .initializer("hi", f32_tensor({}, {2}))
                                  .node({"Clip", inputs, {"y"}})
                                  .output("y")
                                  .model();
    return run_for_values(model, {{"x", f32_tensor({4}, {-5, -0.5f, 1, 9})}});
  };
  EXPECT_THAT(clip({"lo", "hi"}), ElementsAre(-1, -0.5, 1, 2));
  EXPECT_THAT(clip({"", "hi"}), ElementsAre(-5, -0.5, 1, 2));
  EXPECT_THAT(clip({"lo"}), ElementsAre(-1, -0.5, 1, 9));
  const std::string old =
      TestModel()
          .input("x", DType::kF32, {2})
          .node({"Clip", {"x"}, {"y"}, {float_attr("max", 6), float_attr("min", 0)}})
          .output("y")
          .opset(6 + 1)
          .model();
  EXPECT_THAT(run_for_values(old, {{"x", f32_tensor({2}, {-3, 7})}}), ElementsAre(0, 6));
}

TEST(Elementwise, FindsOneSignOfInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto is_inf = [&](int64_t negative, int64_t positive) {
    const std::string model =
        TestModel()
            .input("x", DType::kF32, {3})
            .node({"IsInf",
                   {"x"},
                   {"y"},
                   {int_attr("detect_negative", negative), int_attr("detect_positive", positive)}})
            .output("y", DType::kBool)
            .model();
    return run_for_values(model, {{"x", f32_tensor({3}, {inf, -inf, 1})}});
  };
  EXPECT_THAT(is_inf(1, 1), ElementsAre(1, 1, 0));
  EXPECT_THAT(is_inf(0, 1), ElementsAre(1, 0, 0));
  EXPECT_THAT(is_inf(1, 0), ElementsAre(0, 1, 0));
  EXPECT_THAT(is_inf(0, 0), ElementsAre(0, 0, 0));
}

TEST(Elementwise, MeansOverAnyNumberOfInputs) {
  const std::string model = TestModel()
                                .input("x", DType::kF32, {2})
                                .node({"Mean", {"x", "x", "three"}, {"y"}})
                                .initializer("three", f32_tensor({2}, {3, 6}))
                                .output("y")
                                .model();
  EXPECT_THAT(run_for_values(model, {{"x", f32_tensor({2}, {9, 3})}}), ElementsAre(7, 4));
}

}  // namespace
}  // namespace weft::onnx
