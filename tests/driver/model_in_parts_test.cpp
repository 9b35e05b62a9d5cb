// Models whose sizes depend on values, run part after part, beside what plain loops say.

#include "driver/models/model_in_parts.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/import/onnx/model_writer.h"

namespace weft {
namespace {

using onnx::f32_tensor;
using onnx::i64_tensor;
using onnx::int_attr;
using testing::HasSubstr;

ModelSource source_of(const std::string& model) {
  auto owner = std::make_shared<std::string>(model);
  return ModelSource(MappedFile{owner, onnx::bytes_of(*owner)});
}

HostTensor random_tensor(Shape shape, std::mt19937& random) {
  HostTensor t(DType::kF32, std::move(shape));
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < t.size(); ++i) t.mutable_data<float>()[i] = normal(random);
  return t;
}

/// Rows of x w that have an element above a limit, multiplied again: as detectors have a head for
/// each box that they find.
struct HeadOfFoundRows {
  static constexpr int64_t kIn = 24, kMiddle = 32, kOut = 40;
  std::mt19937 random{7};
  HostTensor w = random_tensor({kIn, kMiddle}, random),
             head = random_tensor({kMiddle, kOut}, random);

  std::string model() const {
    onnx::TestModel m;
    m.opset(13).input("x", DType::kF32, {"rows", kIn}).input("limit", DType::kF32, {});
    m.initializer("w", w).initializer("head", head).initializer("first", i64_tensor({1}, {0}));
    m.node({"MatMul", {"x", "w"}, {"y"}});
    m.node({"ReduceMax", {"y"}, {"most"}, {onnx::ints_attr("axes", {1}), int_attr("keepdims", 0)}});
    m.node({"Greater", {"most", "limit"}, {"kept"}}).node({"NonZero", {"kept"}, {"places"}});
    m.node({"Squeeze", {"places", "first"}, {"place"}});
    m.node({"Gather", {"y", "place"}, {"rows"}});
    m.node({"MatMul", {"rows", "head"}, {"z"}}).node({"Relu", {"z"}, {"out"}});
    return m.output("out").output("place", DType::kI64).model();
  }

  /// The places and, in float64, the head's outputs.
  std::pair<std::vector<int64_t>, std::vector<double>> expected(const HostTensor& x,
                                                                double limit) const {
    std::vector<int64_t> places;
    std::vector<double> out;
    for (int64_t r = 0; r < x.shape()[0]; ++r) {
      std::vector<double> y(kMiddle, 0);
      for (int64_t k = 0; k < kIn; ++k) {
        for (int64_t m = 0; m < kMiddle; ++m)
          y[static_cast<size_t>(m)] += x.at_double(r * kIn + k) * w.at_double(k * kMiddle + m);
      }
      if (*std::max_element(y.begin(), y.end()) <= limit) continue;
      places.push_back(r);
      for (int64_t o = 0; o < kOut; ++o) {
        double sum = 0;
        for (int64_t m = 0; m < kMiddle; ++m)
          sum += y[static_cast<size_t>(m)] * head.at_double(m * kOut + o);
        out.push_back(std::max(sum, 0.0));
      }
    }
    return {places, out};
  }
};

TEST(ModelInParts, FindsAnyNumberOfRows) {
  HeadOfFoundRows net;
  CompileOptions options;
  options.threads = 2;
  options.import.bind = {{"rows", 6}};
  auto model = ModelInParts::open(source_of(net.model()), options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  // Shapes that come again are compiled; others then take over the code.
  std::set<int64_t> counts;
  for (const auto& [rows, limit] : std::vector<std::pair<int64_t, float>>{{50, 10},
                                                                          {50, 10},
                                                                          {50, 8},
                                                                          {50, 8},
                                                                          {50, 9},
                                                                          {50, 9},
                                                                          {50, 1000},
                                                                          {50, -1000},
                                                                          {7, 8}}) {
    std::mt19937 random(static_cast<unsigned>(rows));
    const HostTensor x = random_tensor({rows, HeadOfFoundRows::kIn}, random);
    const auto made = (*model)->run({x, f32_tensor({}, {limit})});
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto [places, out] = net.expected(x, limit);
    const auto count = static_cast<int64_t>(places.size());
    counts.insert(count);
    ASSERT_EQ((*made)[1].shape(), (Shape{count}));
    ASSERT_EQ((*made)[0].shape(), (Shape{count, HeadOfFoundRows::kOut}));
    for (size_t i = 0; i < places.size(); ++i)
      EXPECT_EQ((*made)[1].at_int(static_cast<int64_t>(i)), places[i]);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR((*made)[0].at_double(static_cast<int64_t>(i)), out[i], 1e-3);
  }
  const std::string plans = (*model)->explanation();
  EXPECT_THAT(plans, HasSubstr("part 1: 3 of 8 nodes of the model"));
  EXPECT_THAT(plans, HasSubstr("then on values: NonZero 'NonZero#3'"));
  EXPECT_THAT(plans, HasSubstr("patterns: 1 gemm"));
  EXPECT_GE(counts.size(), 5U);
  EXPECT_TRUE(counts.contains(0) && counts.contains(50));
}

TEST(ModelInParts, RunsALoopThatGrows) {
  // Of each found place p the numbers below p: concatenated in a loop whose steps are as many.
  onnx::TestModel body;
  body.input("step", DType::kI64, {}).input("goes_on", DType::kBool, {});
  body.input("grown", DType::kI64, {"n"});
  body.node({"Gather", {"place", "step"}, {"p"}}).node({"Range", {"none", "p", "one"}, {"below"}});
  body.node({"Concat", {"grown", "below"}, {"more"}, {int_attr("axis", 0)}});
  body.node({"Identity", {"goes_on"}, {"still"}});
  body.output("still", DType::kBool).output("more", DType::kI64);
  onnx::TestModel m;
  m.opset(13).input("x", DType::kF32, {8}).initializer("first", i64_tensor({1}, {0}));
  m.initializer("none", i64_tensor({}, {0})).initializer("one", i64_tensor({}, {1}));
  m.initializer("begin", i64_tensor({0}, {})).initializer("always", onnx::bool_tensor(true));
  m.initializer("zeroth", i64_tensor({}, {0}));
  m.node({"NonZero", {"x"}, {"places"}}).node({"Squeeze", {"places", "first"}, {"place"}});
  m.node({"Shape", {"place"}, {"shape"}}).node({"Gather", {"shape", "zeroth"}, {"count"}});
  m.node({"Loop",
          {"count", "always", "begin"},
          {"grown_out"},
          {onnx::graph_attr("body", body.graph())}});
  m.output("grown_out", DType::kI64);
  auto model = ModelInParts::open(source_of(m.model()), {});
  ASSERT_TRUE(model.ok()) << model.error().message;
  // None is found: the body, which reads of what was found, has nothing to read.
  const auto none = (*model)->run({f32_tensor({8}, std::vector<float>(8, 0))});
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_EQ((*none)[0].shape(), (Shape{0}));
  const auto made = (*model)->run({f32_tensor({8}, {0, 0, 5, 0, 1, 0, 0, 0})});
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ((*made)[0].shape(), (Shape{6}));
  for (const auto& [at, number] : std::map<int64_t, int64_t>{{0, 0}, {1, 1}, {2, 0}, {5, 3}})
    EXPECT_EQ((*made)[0].at_int(at), number);
}

TEST(ModelInParts, SaysWhichInputDoesNotFit) {
  CompileOptions options;
  options.import.bind = {{"rows", 6}};
  auto model = ModelInParts::open(source_of(HeadOfFoundRows().model()), options);
  ASSERT_TRUE(model.ok());
  const HostTensor limit = f32_tensor({}, {0});
  const auto error = [&](const std::vector<HostTensor>& inputs) {
    const auto made = (*model)->run(inputs);
    return made.ok() ? std::string() : made.error().message;
  };
  EXPECT_THAT(error({limit}), HasSubstr("2 inputs, 1 are given"));
  EXPECT_THAT(error({f32_tensor({1, 3}, {0, 0, 0}), limit}),
              HasSubstr("axis 1 of input 'x' is 24"));
  EXPECT_THAT(error({i64_tensor({1, 1}, {0}), limit}), HasSubstr("input 'x' is i64"));
  const std::atomic<bool> cancelled(true);
  const auto stopped = (*model)->run({HostTensor(DType::kF32, {1, 24}), limit}, &cancelled);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
}

TEST(ModelInParts, LeavesOtherModelsAlone) {
  onnx::TestModel m;
  m.input("x", DType::kF32, {3}).node({"Relu", {"x"}, {"y"}}).output("y");
  const auto plain = ModelInParts::open(source_of(m.model()), {});
  ASSERT_FALSE(plain.ok());
  EXPECT_EQ(plain.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace weft
