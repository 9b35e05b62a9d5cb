// Where launches of independent kernels stand in the order, and which kernels share one.

#include <gmock/gmock.h>

#include "tests/plan/planned.h"

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What each kernel of a plan for leaves makes, in order: "a", "e | f".
std::vector<std::string> launches(const std::string& text) {
  const TensorProgram p = expressed(text);
  const FusionPlan plan = plan_of(p, *find_target("a100-40gb"), "greedy", "", true);
  std::vector<std::string> out;
  for (const FusionPlan::Step& step : plan.order) {
    std::string names = summary(plan.kernels[static_cast<size_t>(step.index)], p);
    out.push_back(names.substr(0, names.find(':')));
  }
  return out;
}

/// Library calls one after another, each with its reader behind it: the readers meet behind the
/// last of them.
TEST(PackIndependent, ReadersOfCallsMeetBehindTheLastCall) {
  EXPECT_THAT(launches(R"((x: f32[128,768], w: f32[768,768], u: f32[768,768], d: f32[128,768]) {
  a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  b = add a, d : f32[128,768]
  c = dot_general x, u, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  e = tanh c : f32[128,768]
  y = dot_general b, e, lhs_contract={1}, rhs_contract={1} : f32[128,128]
} -> (y))"),
              ElementsAre("a", "c", "b | e", "y"));
}

/// Two layers of a recurrence over three steps, written out layer by layer: a step of the first
/// layer and the one before it of the second wait for nothing of each other.
TEST(PackIndependent, StepsOfAWavefrontMeet) {
  EXPECT_THAT(launches(R"((x: f32[128,768], w: f32[768,768], u: f32[768,768]) {
  a1 = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  h1 = tanh a1 : f32[128,768]
  a2 = dot_general h1, w, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  h2 = tanh a2 : f32[128,768]
  a3 = dot_general h2, w, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  h3 = tanh a3 : f32[128,768]
  b1 = dot_general h1, u, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  g1 = tanh b1 : f32[128,768]
  s2 = dot_general g1, w, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  b2 = dot_general h2, u, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  c2 = add b2, s2 : f32[128,768]
  g2 = tanh c2 : f32[128,768]
  s3 = dot_general g2, w, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  b3 = dot_general h3, u, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  c3 = add b3, s3 : f32[128,768]
  g3 = tanh c3 : f32[128,768]
} -> (g3))"),
              ElementsAre("a1", "h1", "a2", "b1", "h2 | g1", "a3", "s2", "b2", "h3 | c2, g2", "s3",
                          "b3", "c3, g3"));
}

/// Blocks that go through several rows each, since these have a bias in common: in a launch each
/// has one box, and loads the bias again.
TEST(PackIndependent, RowsThatKeepWhatTheyHaveInCommonMeet) {
  EXPECT_THAT(
      launches(R"((x: f32[4096,768], w: f32[768,768], u: f32[768,768], d: f32[768], e: f32[768]) {
  a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[4096,768]
  k = broadcast d, dims={1} : f32[4096,768]
  b = add a, k : f32[4096,768]
  c = dot_general x, u, lhs_contract={1}, rhs_contract={0} : f32[4096,768]
  l = broadcast e, dims={1} : f32[4096,768]
  f = add c, l : f32[4096,768]
  y = dot_general b, f, lhs_contract={0}, rhs_contract={0} : f32[768,768]
} -> (y))"),
      Contains("b | f"));
}

/// What another member's result is needed for first cannot wait for that member.
TEST(PackIndependent, NoMemberReadsWhatAnotherMakes) {
  EXPECT_THAT(launches(R"((x: f32[128,768], w: f32[768,768], u: f32[768,768]) {
  a = tanh x : f32[128,768]
  b = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  c = exp b : f32[128,768]
  d = dot_general c, u, lhs_contract={1}, rhs_contract={0} : f32[128,768]
  e = abs d : f32[128,768]
} -> (e))"),
              ElementsAre("a", "b", "c", "d", "e"));
}

/// Tensors that fill the device many times: an SM goes on with the next member's blocks.
TEST(PackIndependent, WhatMemoryBoundsSharesLaunchesAtAnySize) {
  const TensorProgram p = expressed(R"((x: f32[1000000], y: f32[3000,1000], z: f32[7000,500]) {
  a = tanh x : f32[1000000]
  b = exp y : f32[3000,1000]
  c = abs z : f32[7000,500]
} -> (a, b, c))");
  const FusionPlan plan = plan_of(p, *find_target("a100-40gb"), "greedy");
  ASSERT_EQ(plan.kernels.size(), 1u) << print(plan, p);
  EXPECT_THAT(summary(plan.kernels[0], p), HasSubstr("because independent"));
  double apart_us = 0;
  for (const PlannedKernel& kernel : plan_of(p, *find_target("a100-40gb"), "none").kernels)
    apart_us += kernel.schedule.estimate.microseconds;
  const double launch_us = find_target("a100-40gb")->launch_us;
  EXPECT_LE(plan.kernels[0].schedule.estimate.microseconds, apart_us - launch_us);
}

}  // namespace
}  // namespace weft
