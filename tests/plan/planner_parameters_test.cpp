#include "plan/planners/planner_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/planners/planners.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

PlannerParameters parsed(std::string_view text, std::string_view planner) {
  const auto parameters = parse_planner_parameters(text, planner);
  EXPECT_TRUE(parameters.ok()) << parameters.error().message;
  return parameters.ok() ? *parameters : PlannerParameters{};
}

TEST(PlannerParameters, AreTakenByTheirNames) {
  EXPECT_EQ(parsed("", "auto").top, 3);
  const PlannerParameters dp = parsed("top=5,launch-us=2.5,beam=8", "dp");
  EXPECT_EQ(dp.top, 5);
  EXPECT_EQ(dp.beam, 8);
  EXPECT_EQ(dp.launch_us, 2.5);
  EXPECT_EQ(dp.expressions, 48);
  EXPECT_EQ(parsed("launch-us=0", "ilp").launch_us, 0);
  const PlannerParameters ilp =
      parsed("operands=2,seed-bytes=0,seed-patterns=7,large-flops=1e9,nodes=10,cuts=0", "ilp");
  EXPECT_EQ(ilp.operands, 2);
  EXPECT_EQ(ilp.seed_bytes, 0);
  EXPECT_EQ(ilp.seed_patterns, 7);
  EXPECT_EQ(ilp.large_flops, 1'000'000'000);
  EXPECT_EQ(ilp.nodes, 10);
  EXPECT_EQ(ilp.cuts, 0);
  const PlannerParameters span = parsed("call-flops=0,footprint=9,outputs=2,rounds=1", "span");
  EXPECT_EQ(span.call_flops, 0);
  EXPECT_EQ(span.footprint, 9);
  EXPECT_EQ(span.outputs, 2);
  EXPECT_EQ(span.rounds, 1);
  EXPECT_EQ(parsed("", "chain").flat, 1);
  EXPECT_EQ(parsed("flat=0", "auto").flat, 0);
}

TEST(PlannerParameters, ThatAreNoneAreMistakes) {
  const struct {
    const char *text, *planner, *message;
  } cases[] = {
      {"width=3", "dp",
       "'dp' has no parameter 'width'; it has top, beam, subgraphs, launch-us, expressions"},
      {"beam=3", "ilp", "'ilp' has no parameter 'beam'"},
      {"beam=3", "auto", "it has subgraphs, recompute"},
      {"beam=3", "none", "it has none"},
      {"gain=1.5", "auto", "gain is a number from 0 to 1"},
      {"gain=0", "best", "'best' has no parameter 'gain'"},
      {"beam", "dp", "write NAME=NUMBER"},
      {"beam=3,,top=2", "dp", "write NAME=NUMBER"},
      {"beam=", "dp", "beam is a whole number from 1 to 64"},
      {"beam=2.5", "dp", "whole number"},
      {"beam=1x", "dp", "whole number"},
      {"beam=0", "dp", "from 1 to 64"},
      {"flat=2", "chain", "flat is a whole number from 0 to 1"},
      {"flat=0", "greedy", "'greedy' has no parameter 'flat'"},
      {"top=1e300", "dp", "from 1 to 64"},
      {"launch-us=nan", "dp", "launch-us is a number from 0"},
  };
  for (const auto& c : cases) {
    const auto parameters = parse_planner_parameters(c.text, c.planner);
    ASSERT_FALSE(parameters.ok()) << c.text;
    EXPECT_EQ(parameters.error().code, ErrorCode::kInvalidInput) << c.text;
    EXPECT_THAT(parameters.error().message, HasSubstr(c.message));
  }
}

TEST(PlannerParameters, AreListedWithTheirPlanners) {
  EXPECT_THAT(planner_parameters_help(), HasSubstr("beam (sets of patterns that are kept; dp)"));
}

TEST(PlannerParameters, ThoseOfComposingGoWithThePlannersThatCompose) {
  for (const Planner& planner : planners()) {
    const auto taken = parse_planner_parameters("recompute=1.5", planner.name);
    EXPECT_EQ(taken.ok(), planner.composes_arithmetic) << planner.name;
  }
}

}  // namespace
}  // namespace weft
