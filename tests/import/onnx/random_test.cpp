#include <algorithm>
#include <cmath>
#include <set>

#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

using ::testing::HasSubstr;

/// The outputs under a seed, which is the graph's last input.
std::vector<std::vector<double>> draw(const std::string& bytes,
                                      const std::map<std::string, HostTensor>& inputs,
                                      int64_t seed) {
  const auto model = import_bytes(bytes);
  EXPECT_TRUE(model.ok()) << model.error().message;
  if (!model.ok()) return {};
  EXPECT_TRUE(verify_graph(model->graph).ok());
  std::vector<HostTensor> arguments;
  for (const ImportedInput& input : model->inputs) {
    EXPECT_EQ(input.drawn, &input == &model->inputs.back());
    arguments.push_back(input.drawn ? tensor_of<int64_t>(DType::kU64, {}, {seed})
                                    : inputs.at(input.name));
  }
  const auto outputs = interpret(model->graph, arguments);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  std::vector<std::vector<double>> values;
  if (outputs.ok()) {
    for (const HostTensor& output : *outputs) values.push_back(values_of(output));
  }
  return values;
}

std::vector<double> draw_one(const OneNode& node, int64_t seed = 1) {
  return draw(node.model(), node.values(), seed).at(0);
}

struct Moments {
  double mean = 0, variance = 0, low = 0, high = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments m;
  const auto count = static_cast<double>(values.size());
  for (const double v : values) m.mean += v / count;
  for (const double v : values) m.variance += (v - m.mean) * (v - m.mean) / count;
  m.low = *std::min_element(values.begin(), values.end());
  m.high = *std::max_element(values.begin(), values.end());
  return m;
}

/// Tolerances are five standard deviations of the estimates of so many.
constexpr int64_t kMany = 20000;

TEST(Random, UniformFillsItsInterval) {
  for (const int64_t type : {1, 10, 11, 16}) {  // float, float16, double, bfloat16
    SCOPED_TRACE(type);
    const Moments m =
        moments_of(draw_one({"RandomUniform",
                             {},
                             {ints_attr("shape", {100, kMany / 100}), int_attr("dtype", type),
                              float_attr("low", -1), float_attr("high", 3)},
                             22}));
    EXPECT_NEAR(m.mean, 1, 5 * 4 / std::sqrt(12.0 * kMany) + (type == 16 ? 0.02 : 0));
    EXPECT_NEAR(m.variance, 16 / 12.0, 0.05);
    EXPECT_GE(m.low, -1);
    EXPECT_LE(m.high, type == 1 || type == 11 ? std::nextafter(3.0, 0.0) : 3);
    EXPECT_LT(m.low, -0.99);
    EXPECT_GT(m.high, 2.97);
  }
}

TEST(Random, NormalHasMeanScaleAndTails) {
  for (const int64_t type : {1, 11}) {
    std::vector<double> values =
        draw_one({"RandomNormalLike",
                  {ramp({kMany})},
                  {int_attr("dtype", type), float_attr("mean", 2), float_attr("scale", 3)},
                  22});
    const Moments m = moments_of(values);
    EXPECT_NEAR(m.mean, 2, 5 * 3 / std::sqrt(double{kMany}));
    EXPECT_NEAR(m.variance, 9, 5 * 9 * std::sqrt(2.0 / kMany));
    // 0.27% lie beyond three standard deviations.
    const auto beyond =
        std::count_if(values.begin(), values.end(), [](double v) { return std::abs(v - 2) > 9; });
    EXPECT_NEAR(static_cast<double>(beyond) / kMany, 0.0027, 5 * std::sqrt(0.0027 / kMany));
    // Neighbours are independent of each other.
    double product = 0;
    for (size_t i = 1; i < values.size(); ++i) product += (values[i] - 2) * (values[i - 1] - 2);
    EXPECT_NEAR(product / (9.0 * kMany), 0, 5 / std::sqrt(double{kMany}));
  }
}

TEST(Random, BernoulliTakesEachElementsProbability) {
  HostTensor p(DType::kF32, {4, kMany / 4});
  for (int64_t i = 0; i < p.size(); ++i)
    p.mutable_data<float>()[i] = std::array{0.0F, 0.2F, 0.7F, 1.0F}[4 * i / kMany];
  const std::vector<double> drawn = draw_one({"Bernoulli", {p}, {int_attr("dtype", 9)}, 22});
  for (size_t row = 0; row < 4; ++row) {
    double hits = 0;
    for (size_t i = 0; i < kMany / 4; ++i) hits += drawn[row * kMany / 4 + i];
    EXPECT_NEAR(hits / (kMany / 4), (std::array{0.0, 0.2, 0.7, 1.0}[row]),
                row % 3 == 0 ? 0 : 5 * std::sqrt(0.25 / (kMany / 4)));
  }
}

TEST(Random, MultinomialDrawsClassesByTheirLogits) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<double> drawn =
      draw_one({"Multinomial",
                {f32_tensor({2, 3}, {std::log(1.0F), none, std::log(3.0F), 0, 0, 0})},
                {int_attr("sample_size", kMany), int_attr("dtype", 7)},
                22});
  ASSERT_EQ(drawn.size(), 2U * kMany);
  const double expected[2][3] = {{0.25, 0, 0.75}, {1 / 3.0, 1 / 3.0, 1 / 3.0}};
  for (size_t row = 0; row < 2; ++row) {
    for (size_t c = 0; c < 3; ++c) {
      const auto* begin = drawn.data() + row * kMany;
      const auto hits = std::count(begin, begin + kMany, static_cast<double>(c));
      EXPECT_NEAR(static_cast<double>(hits) / kMany, expected[row][c],
                  expected[row][c] == 0 ? 0 : 5 * std::sqrt(0.25 / kMany));
    }
  }
}

TestModel dropout(bool training, float ratio) {
  TestModel model;
  model.input("x", DType::kF32, {kMany})
      .initializer("ratio", f32_tensor({}, {ratio}))
      .initializer("training", bool_tensor(training))
      .node({"Dropout", {"x", "ratio", "training"}, {"y", "mask"}})
      .output("y")
      .output("mask", DType::kBool);
  return model;
}

TEST(Random, DropoutDropsInTrainingAlone) {
  const std::map<std::string, HostTensor> inputs{{"x", ramp({kMany})}};
  for (const bool training : {false, true}) {
    const float ratio = training ? 0 : 0.5F;
    EXPECT_THAT(import_text(dropout(training, ratio).model()), Not(HasSubstr("threefry")));
  }
  const auto outputs = draw(dropout(true, 0.25F).model(), inputs, 3);
  ASSERT_EQ(outputs.size(), 2U);
  double kept = 0;
  for (size_t i = 0; i < kMany; ++i) {
    kept += outputs[1][i];
    const double scaled = static_cast<double>(static_cast<float>(i + 1) / 0.75F);
    EXPECT_EQ(outputs[0][i], outputs[1][i] == 0 ? 0 : scaled);
  }
  EXPECT_NEAR(kept / kMany, 0.75, 5 * std::sqrt(0.1875 / kMany));
}

TEST(Random, RunsAndNodesDrawOtherNumbers) {
  TestModel model;
  for (const char* name : {"a", "b"})
    model.node({"RandomUniform", {}, {name}, {ints_attr("shape", {8})}}).output(name);
  const auto first = draw(model.model(), {}, 1), second = draw(model.model(), {}, 2);
  EXPECT_EQ(first, draw(model.model(), {}, 1));
  std::set<double> all;
  for (const auto* run : {&first, &second}) {
    for (const auto& output : *run) all.insert(output.begin(), output.end());
  }
  EXPECT_EQ(all.size(), 32U);
}

TEST(Random, ASeedOfTheNodesOwnIsNoInput) {
  const auto node = [](float seed) {
    return OneNode{"RandomNormal", {}, {ints_attr("shape", {6}), float_attr("seed", seed)}, 22};
  };
  EXPECT_EQ(node(1).run_for({6}), node(1).run_for({6}));
  EXPECT_NE(node(1).run_for({6}), node(2).run_for({6}));
}

TEST(Random, AnIterationOfALoopDrawsItsOwn) {
  TestModel body;
  body.input("i", DType::kI64, {}).input("c", DType::kBool, {}).input("x", DType::kF32, {3});
  body.node({"RandomUniformLike", {"x"}, {"u"}}).node({"Add", {"x", "u"}, {"y"}});
  body.node({"Identity", {"c"}, {"d"}});
  body.output("d", DType::kBool).output("y").output("u");
  TestModel model;
  model.input("x", DType::kF32, {3}).initializer("n", tensor_of<int64_t>(DType::kI64, {}, {5}));
  model.node({"Loop", {"n", "", "x"}, {"y", "us"}, {graph_attr("body", body.graph())}});
  model.output("y").output("us");
  const auto outputs = draw(model.model(), {{"x", f32_tensor({3}, {0, 0, 0})}}, 4);
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(std::set<double>(outputs[1].begin(), outputs[1].end()).size(), 15U);
  double sum = 0;
  for (size_t i = 0; i < 15; i += 3) sum += outputs[1][i];
  EXPECT_NEAR(outputs[0][0], sum, 1e-5);
}

TEST(Random, RefusesWhatItCannotDraw) {
  const OneNode integers{"RandomUniform", {}, {ints_attr("shape", {2}), int_attr("dtype", 7)}, 22};
  EXPECT_THAT(integers.refusal(), HasSubstr("no floats"));
  const OneNode negative{"RandomNormal", {}, {ints_attr("shape", {-2})}, 22};
  EXPECT_THAT(negative.refusal(ErrorCode::kInvalidInput), HasSubstr("negative"));
  const OneNode classes{"Multinomial", {ramp({2, 0})}, {}, 22};
  EXPECT_THAT(classes.refusal(ErrorCode::kInvalidInput), HasSubstr("no classes"));
}

}  // namespace
}  // namespace weft::onnx
