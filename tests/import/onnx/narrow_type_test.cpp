#include "import/onnx/narrow_type.h"

#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

constexpr int kUint4 = 21, kInt4 = 22, kUint2 = 25, kInt2 = 26;

/// A TensorProto of packed integers, in raw_data or, element by element of a byte, in int32_data.
std::string packed(std::string_view name, int type, const Shape& shape, const std::string& bytes,
                   bool typed = false) {
  std::string out;
  protozero::pbf_writer message(out);
  for (const int64_t extent : shape) message.add_int64(1, extent);
  message.add_int32(2, type);
  for (const char byte : bytes) {
    if (typed) message.add_int32(5, static_cast<uint8_t>(byte));
  }
  message.add_string(8, name.data(), name.size());
  if (!typed) message.add_bytes(9, bytes);
  return out;
}

/// w behind Identity: its values.
std::vector<double> values(int type, const Shape& shape, const std::string& bytes,
                           bool typed = false) {
  TestModel model;
  model.initializer_message(packed("w", type, shape, bytes, typed));
  model.node({"Identity", {"w"}, {"y"}}).output("y");
  return run_for_values(model.model(), {});
}

TEST(NarrowIntegers, LieTwoOrFourInAByteTheFirstLowest) {
  const std::string bytes = "\x8f\x70\x01";
  EXPECT_EQ(values(kUint4, {5}, bytes), (std::vector<double>{15, 8, 0, 7, 1}));
  EXPECT_EQ(values(kInt4, {5}, bytes), (std::vector<double>{-1, -8, 0, 7, 1}));
  EXPECT_EQ(values(kInt4, {5}, bytes, true), (std::vector<double>{-1, -8, 0, 7, 1}));
  EXPECT_EQ(values(kUint2, {3, 3}, bytes), (std::vector<double>{3, 3, 0, 2, 0, 0, 3, 1, 1}));
  EXPECT_EQ(values(kInt2, {3, 3}, bytes), (std::vector<double>{-1, -1, 0, -2, 0, 0, -1, 1, 1}));
}

TEST(NarrowIntegers, AreAsManyAsTheShapeSays) {
  const auto error = [](const std::string& bytes, bool typed) {
    TestModel model;
    model.initializer_message(packed("w", kInt4, {5}, bytes, typed));
    model.node({"Identity", {"w"}, {"y"}}).output("y");
    return import_error(model.model());
  };
  for (const bool typed : {false, true}) {
    EXPECT_THAT(error("\x01\x02", typed), testing::HasSubstr("int4[5] holds 2 bytes"));
    EXPECT_THAT(error("\x01\x02\x03\x04", typed), testing::HasSubstr("its shape says 3"));
  }
  TestModel vast;
  vast.initializer_message(packed("w", kInt4, {int64_t{1} << 40}, "\x01"));
  vast.node({"Identity", {"w"}, {"y"}}).output("y");
  EXPECT_THAT(import_error(vast.model()), testing::HasSubstr("holds 1 bytes"));
}

TEST(NarrowIntegers, CastsKeepTheLowestBits) {
  const auto cast = [](int to, const std::vector<float>& x) {
    const auto size = static_cast<int64_t>(x.size());
    return OneNode{"Cast", {f32_tensor({size}, x)}, {int_attr("to", to)}, 24}.run_for({size});
  };
  const std::vector<float> x = {-9.5, -8, -1, 7.9f, 8, 16};
  EXPECT_EQ(cast(kInt4, x), (std::vector<double>{7, -8, -1, 7, -8, 0}));
  EXPECT_EQ(cast(kUint4, x), (std::vector<double>{7, 8, 15, 7, 8, 0}));
  EXPECT_EQ(cast(kInt2, {-3, 1, 2, 5}), (std::vector<double>{1, 1, -2, 1}));
  EXPECT_EQ(cast(kUint2, {-3, 1, 2, 5}), (std::vector<double>{1, 1, 2, 1}));
}

/// A zero point says how many bits its tensor has, also from behind a reshape; a cast to int8 takes
/// that away.
TEST(NarrowIntegers, BoundWhatIsQuantisedToThem) {
  const auto quantised = [](const std::vector<TestNode>& between, int type) {
    TestModel model;
    model.opset(24).input("x", DType::kF32, {4});
    model.initializer("s", f32_tensor({}, {2}));
    model.initializer("shape", i64_tensor({0}, {}));
    model.initializer_message(packed("one", type, {1}, "\x01"));
    for (const TestNode& node : between) model.node(node);
    model.node({"QuantizeLinear", {"x", "s", "zero"}, {"q"}});
    model.node({"DequantizeLinear", {"q", "s", "zero"}, {"y"}}).output("q").output("y");
    const auto outputs = run_model(model.model(), {{"x", f32_tensor({4}, {-99, 0, 3, 99})}});
    return outputs.size() == 2 ? std::pair(values_of(outputs[0]), values_of(outputs[1]))
                               : std::pair<std::vector<double>, std::vector<double>>();
  };
  const TestNode reshape{"Reshape", {"one", "shape"}, {"zero"}};
  auto [q, y] = quantised({reshape}, kInt4);
  EXPECT_EQ(q, (std::vector<double>{-8, 1, 3, 7}));
  EXPECT_EQ(y, (std::vector<double>{-18, 0, 4, 12}));
  std::tie(q, y) = quantised({reshape}, kUint2);
  EXPECT_EQ(q, (std::vector<double>{0, 1, 3, 3}));
  std::tie(q, y) = quantised(
      {{"Cast", {"one"}, {"wide"}, {int_attr("to", 3)}}, {"Reshape", {"wide", "shape"}, {"zero"}}},
      kInt4);
  EXPECT_EQ(q, (std::vector<double>{-49, 1, 3, 51}));
}

TEST(NarrowIntegers, OutputTypesBoundToo) {
  OneNode node{"QuantizeLinear",
               {ramp({4}, -20, 15), f32_tensor({}, {1})},
               {int_attr("output_dtype", kInt4)},
               24};
  EXPECT_EQ(node.run_for({4}), (std::vector<double>{-8, -5, 7, 7}));
}

TEST(NarrowIntegers, HaveNoBitsToCast) {
  OneNode node{"BitCast", {tensor_of<int>(DType::kI8, {2}, {1, 2})}, {int_attr("to", kInt4)}, 26};
  EXPECT_THAT(node.refusal(), testing::HasSubstr("packed numbers"));
}

// Rows 1 and, counted from the end, 0, of values times a scale a row; a row that is not there is 0.
TEST(NarrowIntegers, AreGatheredAndRescaledAsFloatsAre) {
  constexpr int kE4M3 = 17;
  const auto gathered = [](int type, const std::string& bytes) {
    TestModel model;
    model.initializer_message(packed("w", type, {2, 2}, bytes));
    model.initializer("i", i64_tensor({3}, {1, -2, 2}));
    model.initializer("s", f32_tensor({2, 1}, {10, 100}));
    TestNode node{"GatherBlockQuantized", {"w", "i", "s"}, {"y"}, {int_attr("block_size", 16)}};
    node.domain = "com.microsoft";
    model.node(node).output("y");
    return run_for_values(model.model(), {});
  };
  EXPECT_EQ(gathered(kInt4, "\x8f\x27"), (std::vector<double>{700, 200, -10, -80, 0, 0}));
  EXPECT_EQ(gathered(kUint4, "\x8f\x27"), (std::vector<double>{700, 200, 150, 80, 0, 0}));
  EXPECT_EQ(gathered(kE4M3, "\x38\xb0\x40\x44"), (std::vector<double>{200, 300, 10, -5, 0, 0}));
}

}  // namespace
}  // namespace weft::onnx
