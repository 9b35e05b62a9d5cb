#include <fmt/format.h>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

// Two features of four elements each, means 4 and 1, variances 5 and 1.
const HostTensor kRows = floats({2, 2, 2}, {1, 3, 0, 2, 5, 7, 2, 0});
const HostTensor kScale = floats({2}, {2, 3});
const HostTensor kOffset = floats({2}, {10, 20});

constexpr std::string_view kTuple = "(f32[2,2,2], f32[2], f32[2])";

TEST(BatchNorm, TrainingGivesTheBatchsMoments) {
  const std::string text = module_of(fmt::format(R"(  x = f32[2,2,2] parameter(0)
  s = f32[2] parameter(1)
  o = f32[2] parameter(2)
  ROOT r = {} batch-norm-training(x, s, o), epsilon=4, feature_index=1)",
                                                 kTuple));
  const auto values = run_all(text, {kRows, kScale, kOffset});
  ASSERT_EQ(values.size(), 3U);
  const double a = 2 / std::sqrt(9), c = 3 / std::sqrt(5);
  expect_values(values[0],
                {10 - 3 * a, 10 - a, 20 - c, 20 + c, 10 + a, 10 + 3 * a, 20 + c, 20 - c});
  expect_values(values[1], {4, 1});
  expect_values(values[2], {5, 1});
}

TEST(BatchNorm, InferenceTakesThemAndTheLastAxis) {
  const std::string text = module_of(R"(  x = f32[2,2] parameter(0)
  s = f32[2] parameter(1)
  o = f32[2] parameter(2)
  m = f32[2] parameter(3)
  v = f32[2] parameter(4)
  ROOT r = f32[2,2] batch-norm-inference(x, s, o, m, v), epsilon=1e+0, feature_index=1)");
  expect_values(run(text, {floats({2, 2}, {1, 2, 3, 4}), kScale, kOffset, floats({2}, {1, 2}),
                           floats({2}, {3, 8})}),
                {10, 20, 12, 22});
}

TEST(BatchNorm, HalvesAreNormalisedInSingles) {
  EXPECT_THAT(import_text(module_of(R"(  x = bf16[4,2] parameter(0)
  s = bf16[2] parameter(1)
  o = bf16[2] parameter(2)
  t = (bf16[4,2], bf16[2], bf16[2]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1
  ROOT r = bf16[4,2] get-tuple-element(t), index=0)")),
              HasSubstr("axes={0}, combiner=sum : f32[2]"));
}

/// As the difference quotient of sum (dy y) has it.
TEST(BatchNorm, GradientIsThatOfTheTrainingForm) {
  const std::string gradient = module_of(fmt::format(R"(  x = f32[2,2,2] parameter(0)
  s = f32[2] parameter(1)
  m = f32[2] parameter(2)
  v = f32[2] parameter(3)
  d = f32[2,2,2] parameter(4)
  ROOT r = {} batch-norm-grad(x, s, m, v, d), epsilon=4, feature_index=1)",
                                                     kTuple));
  const std::vector<double> dy = {0.5, -1, 2, 0, 1, 0.25, -0.5, 3};
  const auto values = run_all(
      gradient, {kRows, kScale, floats({2}, {4, 1}), floats({2}, {5, 1}), floats({2, 2, 2}, dy)});
  ASSERT_EQ(values.size(), 3U);
  const auto weighed = [&](std::vector<double> x, std::vector<double> scale) {
    double sum = 0;
    for (size_t feature = 0; feature < 2; ++feature) {
      const size_t at[] = {2 * feature, 2 * feature + 1, 2 * feature + 4, 2 * feature + 5};
      double mean = 0, variance = 0;
      for (const size_t i : at) mean += x[i] / 4;
      for (const size_t i : at) variance += (x[i] - mean) * (x[i] - mean) / 4;
      for (const size_t i : at) {
        sum += dy[i] * scale[feature] * (x[i] - mean) / std::sqrt(variance + 4);
      }
    }
    return sum;
  };
  const std::vector<double> x = {1, 3, 0, 2, 5, 7, 2, 0}, scale = {2, 3};
  constexpr double kStep = 1e-4;
  for (size_t i = 0; i < 8; ++i) {
    std::vector<double> more = x, less = x;
    more[i] += kStep;
    less[i] -= kStep;
    EXPECT_NEAR(values[0][i], (weighed(more, scale) - weighed(less, scale)) / (2 * kStep), 1e-5);
  }
  EXPECT_NEAR(values[1][0], weighed(x, {1, 0}), 1e-5);
  EXPECT_NEAR(values[1][1], weighed(x, {0, 1}), 1e-5);
  expect_values(values[2], {0.75, 4.5});
}

TEST(BatchNorm, ErrorsSayWhatDoesNotFit) {
  const auto error = [](std::string_view scale, std::string_view attributes) {
    return import_error(module_of(fmt::format(R"(  x = f32[2,3] parameter(0)
  s = f32[{0}] parameter(1)
  ROOT r = (f32[2,3], f32[{0}], f32[{0}]) batch-norm-training(x, s, s), {1})",
                                              scale, attributes)));
  };
  EXPECT_THAT(error("2", "epsilon=1, feature_index=1"), HasSubstr("one value for each feature"));
  EXPECT_THAT(error("3", "epsilon=1, feature_index=2"), HasSubstr("feature_index"));
  EXPECT_THAT(error("3", "epsilon=much, feature_index=1"), HasSubstr("expected a number"));
  EXPECT_THAT(error("3", "feature_index=1"), HasSubstr("no attribute 'epsilon'"));
}

}  // namespace
}  // namespace weft::hlo
