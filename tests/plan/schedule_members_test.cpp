// How kernels change to share launches.

#include "plan/schedule_members.h"

#include <gtest/gtest.h>

#include "schedule/gpu/join_kernels.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

/// Long rows that blocks share wait for each other at a barrier of their own, and keep them across.
TEST(ScheduleMembers, JoiningGivesUpBarriersOfAKernelsOwn) {
  const TensorProgram program = expressed(R"((x: f32[7,32768]) {
    m = reduce x, axes={1}, combiner=max : f32[7]
    b = broadcast m, dims={0} : f32[7,32768]
    d = sub x, b : f32[7,32768]
    e = exp d : f32[7,32768]
    s = reduce e, axes={1}, combiner=sum : f32[7]
    c = broadcast s, dims={0} : f32[7,32768]
    y = div e, c : f32[7,32768]
  } -> (y))");
  const Target target = *find_target("a100-40gb");
  const Group group = whole_group(program);
  const auto best = schedule_group(program, group, target, "k");
  ASSERT_TRUE(best.ok()) << best.error().message;
  ASSERT_FALSE(can_join(*best));
  const auto other = joinable(program, group, "k", target, *best);
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_TRUE(can_join(*other));
  EXPECT_GT(other->estimate.microseconds, best->estimate.microseconds);
  // What can join stays as it is.
  const auto again = joinable(program, group, "k", target, *other);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->composition, other->composition);
}

TEST(ScheduleMembers, FewerWarpsArePricedByTheirTemplate) {
  const TensorProgram program =
      expressed("(x: f32[512,1024]) { y = tanh x : f32[512,1024] } -> (y)");
  const Target target = *find_target("a100-40gb");
  const Group group = whole_group(program);
  const auto best = schedule_group(program, group, target, "k");
  ASSERT_TRUE(best.ok()) << best.error().message;
  ASSERT_EQ(best->program.warps, 8);
  const auto fewer = on_fewer_warps(program, group, target, *best, 4);
  ASSERT_TRUE(fewer.has_value());
  EXPECT_EQ(fewer->program.warps, 4);
  EXPECT_GE(fewer->estimate.microseconds, best->estimate.microseconds);
  EXPECT_FALSE(on_fewer_warps(program, group, target, *fewer, 4).has_value());
}

}  // namespace
}  // namespace weft
