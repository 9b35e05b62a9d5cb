// Sums over windows by minimal filtering, from a graph to answers.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "driver/compiler.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "plan/fusion_plan.h"
#include "tests/tile/program_cases.h"

namespace weft {
namespace {

std::string weights(int64_t count, int64_t step) {
  std::string out = "{";
  for (int64_t i = 0; i < count; ++i)
    out +=
        fmt::format("{}{:.4f}", i == 0 ? "" : ", ", static_cast<double>(i * step % 29 - 14) / 32);
  return out + "}";
}

/// Two convolutions with what stands around them in a residual block.
std::string block(int64_t pictures, int64_t channels, int64_t height, int64_t width) {
  const std::string x = fmt::format("f32[{},{},{},{}]", pictures, channels, height, width);
  const std::string w = fmt::format("f32[{0},{0},3,3]", channels);
  const std::string attributes =
      "strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1";
  const int64_t n = channels * channels * 9;
  return fmt::format(R"((x: {0}) {{
  v = constant {3} : {1}
  w = constant {4} : {1}
  c = convolution x, v, {2} : {0}
  z = constant 0 : f32[]
  zb = broadcast z, dims={{}} : {0}
  r = max c, zb : {0}
  d = convolution r, w, {2} : {0}
  s = add d, x : {0}
  y = max s, zb : {0}
}} -> (y))",
                     x, w, attributes, weights(n, 7), weights(n, 11));
}

CompileOptions options(int threads, const std::string& parameters) {
  CompileOptions out;
  out.threads = threads;
  out.verify = true;
  out.planner_parameters = parameters;
  return out;
}

std::unique_ptr<Compilation> compiled(const std::string& text, const CompileOptions& options) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  auto out = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out.ok() ? std::move(*out) : nullptr;
}

struct Case {
  int threads = 1;
  int64_t pictures = 1, channels = 16, height = 8, width = 8;
  int max_vector_bytes = 0;
};

class FilteredBlock : public testing::TestWithParam<Case> {};

TEST_P(FilteredBlock, IsRight) {
  const Case& c = GetParam();
  CompileOptions o = options(c.threads, "filter=2");
  o.max_vector_bytes = c.max_vector_bytes;
  const std::string text = block(c.pictures, c.channels, c.height, c.width);
  const auto made = compiled(text, o);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->plan.filtered, std::vector<std::string>({"c", "d"}));
  const HostTensor x =
      tile_test::random_tensor(DType::kF32, {c.pictures, c.channels, c.height, c.width}, 1);
  const auto expected = interpret(*parse_graph(text), {x});
  ASSERT_TRUE(expected.ok());
  auto session = Session::create(made->program, c.threads);
  ASSERT_TRUE(session.ok());
  const auto got = (*session)->run({x});
  ASSERT_TRUE(got.ok()) << got.error().message;
  double most = 0, scale = 0;
  for (int64_t i = 0; i < (*expected)[0].size(); ++i) {
    const double e = (*expected)[0].at_double(i);
    most = std::max(most, std::abs((*got)[0].at_double(i) - e));
    scale = std::max(scale, std::abs(e));
  }
  EXPECT_GT(scale, 1);
  EXPECT_LT(most, 1e-5 * scale);
}

INSTANTIATE_TEST_SUITE_P(Cases, FilteredBlock,
                         testing::Values(Case{}, Case{.threads = 2, .height = 14, .width = 14},
                                         Case{.height = 7, .width = 9},
                                         Case{.threads = 2, .pictures = 3, .height = 5, .width = 4},
                                         Case{.channels = 12, .height = 6, .width = 11},
                                         Case{.pictures = 2, .max_vector_bytes = 32},
                                         Case{.channels = 20, .max_vector_bytes = 16}));

/// 64 channels on 56 x 56 pixels are worth it, three are not; so says the parameter.
TEST(MinimalFilteringPlan, IsMadeWhereItPays) {
  EXPECT_EQ(compiled(block(1, 64, 56, 56), options(1, ""))->plan.filtered.size(), 2U);
  EXPECT_TRUE(compiled(block(1, 64, 56, 56), options(1, "filter=0"))->plan.filtered.empty());
  EXPECT_TRUE(compiled(block(1, 4, 8, 8), options(1, ""))->plan.filtered.empty());
  CompileOptions none = options(1, "");
  none.planner = "none";
  EXPECT_TRUE(compiled(block(1, 64, 56, 56), none)->plan.filtered.empty());
  CompileOptions calls = options(1, "");
  calls.compute_as_calls = true;
  calls.stop_after = "plan";
  EXPECT_TRUE(compiled(block(1, 64, 56, 56), calls)->plan.filtered.empty());
}

TEST(MinimalFilteringPlan, IsOfThePlansText) {
  const std::string text = block(1, 16, 8, 8);
  const auto made = compiled(text, options(1, "filter=2"));
  const std::string plan = print(made->plan, made->tensors);
  EXPECT_EQ(plan.substr(0, plan.find('\n')), "plan auto filtered (c, d) {");
  CompileOptions given = options(1, "");
  given.plan_text = plan;
  const auto again = compiled(text, given);
  EXPECT_EQ(print(again->plan, again->tensors), plan);
  ASSERT_EQ(again->substitutions.size(), 2U);
  EXPECT_EQ(again->substitutions[0], "c: its windows are summed by minimal filtering, F(2, 3)");
  // A plan without them, as one for a GPU is, leaves the sums as they are.
  const auto direct = compiled(text, options(1, "filter=0"));
  given.plan_text = print(direct->plan, direct->tensors);
  EXPECT_TRUE(compiled(text, given)->plan.filtered.empty());
}

/// A GPU makes none by itself, and keeps a plan's.
TEST(MinimalFilteringPlan, BuildsForGpus) {
  const std::string text = fmt::format(R"((x: f32[1,8,8,16]) {{
  w = constant {} : f32[16,16,3,3]
  t = transpose x, permutation={{0,3,1,2}} : f32[1,16,8,8]
  c = convolution t, w, strides={{1,1}}, low={{1,1}}, high={{1,1}}, lhs_dilations={{1,1}}, rhs_dilations={{1,1}}, groups=1 : f32[1,16,8,8]
  y = transpose c, permutation={{0,2,3,1}} : f32[1,8,8,16]
}} -> (y))",
                                       weights(16 * 16 * 9, 7));
  const auto made = compiled(text, options(1, "filter=2"));
  CompileOptions device = options(1, "filter=2");
  device.device = *find_target("a100-40gb");
  device.stop_after = "plan";
  EXPECT_TRUE(compiled(text, device)->plan.filtered.empty());
  device.planner_parameters.clear();
  device.plan_text = print(made->plan, made->tensors);
  const auto there = compiled(text, device);
  ASSERT_NE(there, nullptr);
  EXPECT_EQ(there->plan.filtered, std::vector<std::string>({"y"}));
  EXPECT_EQ(there->plan.kernels.size(), made->plan.kernels.size());
}

}  // namespace
}  // namespace weft
