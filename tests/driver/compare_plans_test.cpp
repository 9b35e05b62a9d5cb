#include "driver/explain/compare_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "driver/compiler.h"
#include "driver/print_level.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using Kind = KernelChange::Kind;

/// A product with a bias, and a softmax of it.
constexpr const char* kGraph = R"(
(x: f32[16,32], w: f32[32,8], b: f32[16,8]) {
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[16,8]
  s = add p, b : f32[16,8]
  e = exp s : f32[16,8]
  r = reduce e, axes={1}, combiner=sum : f32[16]
} -> (e, r))";

std::unique_ptr<Compilation> plan(const std::string& planner, const std::string& text = "") {
  auto graph = parse_graph(kGraph);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  CompileOptions options;
  options.threads = 1;
  options.stop_after = "plan";
  options.planner = planner;
  options.plan_text = text;
  auto c = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return std::move(*c);
}

int count(const PlanComparison& comparison, Kind kind) {
  return static_cast<int>(std::ranges::count(comparison.changes, kind, &KernelChange::kind));
}

TEST(ComparePlans, FindsNothingBetweenAPlanAndItself) {
  const auto now = plan("auto");
  const auto was = plan("auto", *print_level(*now, "plan"));
  const PlanComparison comparison = compare_plans(explained(*was), explained(*now));
  EXPECT_EQ(count(comparison, Kind::kSame), static_cast<int>(now->plan.kernels.size()));
  EXPECT_EQ(comparison.changes.size(), now->plan.kernels.size());
}

TEST(ComparePlans, NamesKernelsThatBecameOne) {
  const auto was = plan("none"), now = plan("auto");
  ASSERT_EQ(was->plan.kernels.size(), 4U);
  ASSERT_LT(now->plan.kernels.size(), 4U);
  const PlanComparison comparison = compare_plans(explained(*was), explained(*now));
  ASSERT_EQ(comparison.changes.size(), now->plan.kernels.size());
  const KernelChange& first = comparison.changes.front();
  EXPECT_EQ(first.kind, Kind::kRegrouped);
  EXPECT_EQ(first.now.size(), 1U);
  EXPECT_GT(first.was.size(), 1U);
  EXPECT_THAT(comparison_text(comparison), HasSubstr(first.was.back().name));
  const auto j = nlohmann::json::parse(comparison_json(comparison));
  EXPECT_EQ(j["was"]["kernels"], 4);
  EXPECT_EQ(j["changes"][0]["kind"], "regrouped");
}

/// By hand: of 100 us 40 are of kernels that now take 10: 1 + 0.4 (1 - 1/4).
TEST(ComparePlans, PredictsTheSpeedupFromEndToEnd) {
  const auto kernel = [](double us) {
    ComparedKernel k;
    k.name = "k";
    k.predicted_us = us;
    return k;
  };
  PlanComparison comparison;
  comparison.changes.push_back({Kind::kSame, {kernel(60)}, {kernel(60)}});
  EXPECT_FALSE(end_to_end(comparison));
  comparison.changes.push_back({Kind::kRegrouped, {kernel(25), kernel(15)}, {kernel(10)}});
  const auto e = end_to_end(comparison);
  ASSERT_TRUE(e);
  EXPECT_DOUBLE_EQ(e->fusable_ratio, 0.4);
  EXPECT_DOUBLE_EQ(e->fusion_speedup, 4);
  EXPECT_DOUBLE_EQ(e->predicted(), 1.3);
  EXPECT_THAT(comparison_text(comparison),
              HasSubstr("end to end: 40.0% of the time before is of kernels that changed, now "
                        "4.00x as fast: 1.30x"));
  const auto j = nlohmann::json::parse(comparison_json(comparison));
  EXPECT_DOUBLE_EQ(j["end_to_end"]["predicted"], 1.3);
}

TEST(ComparePlans, TellsAKernelThatIsComposedOtherwise) {
  const auto now = plan("auto");
  auto was = plan("auto");
  was->plan.kernels.back().schedule.composition = {};
  const PlanComparison comparison = compare_plans(explained(*was), explained(*now));
  EXPECT_EQ(count(comparison, Kind::kRebuilt), 1);
}

}  // namespace
}  // namespace weft
