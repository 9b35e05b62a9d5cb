#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/fusion_plan.h"
#include "tests/schedule/expressed.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

FusionPlan plan_of(const TensorProgram& program, const Target& target,
                   const std::string& planner = "auto") {
  PlanOptions options;
  options.planner = planner;
  auto plan = plan_fusion(program, target, options);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  if (!plan.ok()) return {};
  const Status status = verify_plan(program, *plan);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return std::move(*plan);
}

/// Sums of rows, and something of another shape that has nothing to do with them.
constexpr const char* kApart = R"(
(x: f32[96,64], u: f32[7,5,3]) {
  y = reduce x, axes={1}, combiner=sum : f32[96]
  z = exp u : f32[7,5,3]
} -> (y, z))";

TEST(Packing, PutsIndependentKernelsSideBySide) {
  const TensorProgram p = expressed(kApart);
  const FusionPlan plan = plan_of(p, *find_target("h100-sxm"));
  ASSERT_EQ(plan.kernels.size(), 1U) << print(plan, p);
  EXPECT_THAT(print(plan, p),
              HasSubstr("kernel k0_y memory \"side by side: rows in registers | elementwise\" "
                        "because \"independent, 6 + 1 blocks on 132 SMs, saves"));
  EXPECT_THAT(print(plan, p), HasSubstr(": y | z -> y, z\n"));
  EXPECT_THAT(print(plan.kernels[0].schedule.program), HasSubstr("share 6 {"));
}

TEST(Packing, PrintsAndParses) {
  const TensorProgram p = expressed(kApart);
  const Target target = *find_target("h100-sxm");
  const FusionPlan plan = plan_of(p, target);
  const auto again = parse_plan(print(plan, p), p, target);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(print(*again, p), print(plan, p));
  EXPECT_EQ(print(again->kernels[0].schedule.program), print(plan.kernels[0].schedule.program));
  EXPECT_EQ(print(plan_of(p, target), p), print(plan, p));
}

TEST(Packing, IsThePlannersOwnAndNeedsAGpu) {
  const TensorProgram p = expressed(kApart);
  EXPECT_EQ(plan_of(p, *find_target("h100-sxm"), "none").kernels.size(), 2U);
  EXPECT_EQ(plan_of(p, *find_target("h100-sxm"), "xla").kernels.size(), 2U);
  Target cpu;
  cpu.bandwidth = {{1 << 20, 100}};
  EXPECT_EQ(plan_of(p, cpu).kernels.size(), 2U);
}

/// Kernels that fill the device gain nothing.
TEST(Packing, LeavesBusyKernelsAlone) {
  const TensorProgram p = expressed(R"(
(x: f32[4096,1024], u: f32[7,5,3]) {
  y = reduce x, axes={1}, combiner=sum : f32[4096]
  z = exp u : f32[7,5,3]
} -> (y, z))");
  EXPECT_EQ(plan_of(p, *find_target("h100-sxm")).kernels.size(), 2U);
}

/// A chain of two steps beside another: steps of one level meet, a step never meets what it reads.
TEST(Packing, LeavesAloneWhatOnlyABarrierHolds) {
  // Rows and columns of x are reduced in one kernel, behind a barrier of the grid; no kernel
  // without one does.
  const TensorProgram p = expressed(R"(
(x: f32[16,11], w: f32[11], u: f32[33,11], v: f32[33,11]) {
  a = min u, v : f32[33,11]
  r = reduce x, axes={1}, combiner=max : f32[16]
  c = reduce x, axes={0}, combiner=sum : f32[11]
  z = mul c, w : f32[11]
} -> (a, r, z))");
  const FusionPlan plan = plan_of(p, *find_target("rtx3080"));
  ASSERT_EQ(plan.kernels.size(), 2U) << print(plan, p);
  EXPECT_THAT(print(plan, p), HasSubstr("\"rows and columns\""));
}

TEST(Packing, KeepsDependencesInOrder) {
  const TensorProgram p = expressed(R"(
(x: f32[6,90], u: f32[9,100]) {
  a = reduce x, axes={1}, combiner=sum : f32[6]
  b = reshape a : f32[2,3]
  c = reduce b, axes={0}, combiner=max : f32[3]
  d = reduce u, axes={1}, combiner=sum : f32[9]
  e = reshape d : f32[3,3]
  f = reduce e, axes={0}, combiner=max : f32[3]
} -> (c, f))");
  const FusionPlan plan = plan_of(p, *find_target("h100-sxm"));
  ASSERT_EQ(plan.kernels.size(), 2U) << print(plan, p);
  EXPECT_THAT(print(plan, p), HasSubstr(": a | d -> a, d\n"));
  EXPECT_THAT(print(plan, p), HasSubstr(": c | f -> c, f\n"));
}

TEST(Packing, RefusesAMemberThatReadsAnother) {
  const TensorProgram p = expressed(R"(
(x: f32[6,90]) {
  a = reduce x, axes={1}, combiner=sum : f32[6]
  b = reshape a : f32[2,3]
  c = reduce b, axes={0}, combiner=max : f32[3]
} -> (a, c))");
  const auto plan = parse_plan(
      "plan auto {\n  kernel k0 memory \"side by side: rows in registers | rows in registers\" "
      "because \"by hand\": a | c -> a, c\n}\n",
      p, *find_target("h100-sxm"));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message, HasSubstr("reads a, which another one makes"));
}

}  // namespace
}  // namespace weft
