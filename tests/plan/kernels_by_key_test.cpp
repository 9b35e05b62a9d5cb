// Equal groups take one schedule, and each has the names that a build of its own gives.

#include "plan/kernels_by_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/schedule_key.h"
#include "tests/plan/planned.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// Three groups of one key. Names of the second end alike beyond what an identifier keeps, those of
/// the third are names that kernels give themselves.
constexpr const char* kLayers = R"(
(x: f32[40,100], y: f32[40,100], P: f32[40,100]) {
  m = reduce x, axes={1}, combiner=max : f32[40]
  w = broadcast m, dims={0} : f32[40,100]
  r = sub x, w : f32[40,100]
  one_maximum_of_attention_scores = reduce y, axes={1}, combiner=max : f32[40]
  wy = broadcast one_maximum_of_attention_scores, dims={0} : f32[40,100]
  two_maximum_of_attention_scores = sub y, wy : f32[40,100]
  a0 = reduce P, axes={1}, combiner=max : f32[40]
  a1 = broadcast a0, dims={0} : f32[40,100]
  a0_1n = sub P, a1 : f32[40,100]
} ->
  (r, two_maximum_of_attention_scores, a0_1n, m, one_maximum_of_attention_scores, a0))";

TEST(KernelsByKey, AreThoseThatGroupsHaveAlone) {
  const TensorProgram program = expressed(kLayers);
  const FusionPlan planned = plan_of(program, two_cores());
  ASSERT_EQ(planned.kernels.size(), 3u);
  for (const Target& target : {two_cores(), *find_target("a100-40gb")}) {
    FusionPlan plan;
    for (const PlannedKernel& kernel : planned.kernels) {
      plan.kernels.emplace_back();
      plan.kernels.back().name = kernel.name;
      plan.kernels.back().group = kernel.group;
    }
    KnownGroups groups(program, target);
    GroupKeys& keys = groups.keys();
    KernelsByKey kernels(target, nullptr);
    ASSERT_TRUE(kernels.schedule(program, groups, {}, plan).ok());
    kernels.estimate(keys, plan);
    const Hash128 key = keys.of(plan.kernels[0].group).hash;
    for (const PlannedKernel& kernel : plan.kernels) {
      EXPECT_EQ(keys.of(kernel.group).hash, key);
      auto alone = schedule_group(program, kernel.group, target, kernel.name);
      ASSERT_TRUE(alone.ok());
      estimate_traffic(*alone);
      EXPECT_EQ(print(kernel.schedule.program, kernel.schedule.scopes),
                print(alone->program, alone->scopes));
      EXPECT_EQ(kernel.schedule.parameters, alone->parameters);
      EXPECT_EQ(kernel.schedule.estimate.bytes_requested, alone->estimate.bytes_requested);
    }
    EXPECT_THAT(print(plan.kernels[1].schedule.program), HasSubstr("imum_of_attention_scores_2n"));
  }
}

}  // namespace
}  // namespace weft
