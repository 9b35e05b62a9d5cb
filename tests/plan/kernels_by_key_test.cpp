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
    GroupAnswers answers;
    KnownGroups groups(program, target, answers);
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

constexpr const char* kChain = R"(
(q: f16[128,64], k: f16[64,256], v: f16[256,64]) {
  s = dot_general q, k, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f16[128,256]
  e = exp s : f16[128,256]
  y = dot_general e, v, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f16[128,64]
} -> (y))";

TEST(KernelsByKey, ChainsThatWereMeasuredToBeQuickerAreTaken) {
  const TensorProgram program = expressed(kChain);
  const Group group = whole_group(program);
  for (const Target& target : {two_cores(), *find_target("a100-40gb")}) {
    const auto chain = schedule_chain(program, group, target, "k");
    ASSERT_TRUE(chain.ok()) << chain.error().message;
    const std::vector<Composition> others =
        others_to_measure(program, group, chain->composition, target);
    ASSERT_GE(others.size(), 2u) << target.name;
    EXPECT_LE(others.size(), 8u);
    for (const Composition& other : others) {
      EXPECT_EQ(other.kind, Composition::Kind::kChain);
      EXPECT_NE(other, chain->composition);
      EXPECT_TRUE(build_composition(program, group, other, target, "k").ok()) << print(other);
    }
    GroupAnswers answers;
    KnownGroups groups(program, target, answers);
    const Hash128 key = groups.keys().of(group).hash;
    const auto planned = [&](double present_us, double other_us) {
      MeasuredCompositions measured;
      measured.add(key, {chain->composition, present_us, 3, "present"});
      measured.add(key, {others[1], other_us, 3, "other"});
      FusionPlan plan;
      plan.kernels.emplace_back();
      plan.kernels.back().name = "k";
      plan.kernels.back().group = group;
      KernelsByKey kernels(target, &measured);
      EXPECT_TRUE(kernels.schedule(program, groups, {{0, chain->composition}}, plan).ok());
      return plan.kernels.back().schedule;
    };
    const ScheduledKernel quicker = planned(9, 8);
    EXPECT_EQ(quicker.composition, others[1]);
    EXPECT_THAT(quicker.measured, HasSubstr("row other: 8.00 us, 3 samples"));
    EXPECT_EQ(planned(9, 8.9).composition, chain->composition);
    EXPECT_EQ(planned(9, 8.9).measured, "");
  }
}

/// Rows of products: blocks of several of them, or of one.
constexpr const char* kBlock = R"(
(x: f32[256,64], w: f32[64,128], v: f32[128,32]) {
  p = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[256,128]
  m = reduce p, axes={1}, combiner=max : f32[256]
  b = broadcast m, dims={0} : f32[256,128]
  e = sub p, b : f32[256,128]
  y = dot_general e, v, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[256,32]
} -> (y))";

TEST(KernelsByKey, PartitionsThatWereMeasuredToBeQuickerAreTaken) {
  const TensorProgram program = expressed(kBlock);
  const Group group = whole_group(program);
  for (const Target& target : {two_cores(), *find_target("a100-40gb")}) {
    GroupAnswers answers;
    KnownGroups groups(program, target, answers);
    const auto planned = [&](const MeasuredCompositions& measured) {
      FusionPlan plan;
      plan.kernels.emplace_back();
      plan.kernels.back().name = "k";
      plan.kernels.back().group = group;
      KernelsByKey kernels(target, &measured);
      EXPECT_TRUE(kernels.schedule(program, groups, {}, plan).ok());
      return plan.kernels.back().schedule;
    };
    const Composition present = planned({}).composition;
    ASSERT_EQ(present.kind, Composition::Kind::kBlock) << target.name;
    const std::vector<Composition> others = others_to_measure(program, group, present, target);
    ASSERT_GE(others.size(), 1u) << target.name;
    EXPECT_LE(others.size(), 8u);
    for (const Composition& other : others) {
      EXPECT_EQ(other.kind, Composition::Kind::kBlock);
      EXPECT_NE(other, present);
      EXPECT_TRUE(build_composition(program, group, other, target, "k").ok()) << print(other);
    }
    const auto measured = [&](double present_us, double other_us) {
      MeasuredCompositions rows;
      const Hash128 key = groups.keys().of(group).hash;
      rows.add(key, {present, present_us, 3, "present"});
      rows.add(key, {others.back(), other_us, 3, "other"});
      return rows;
    };
    const ScheduledKernel quicker = planned(measured(9, 8));
    EXPECT_EQ(quicker.composition, others.back());
    EXPECT_THAT(quicker.measured, HasSubstr("row other: 8.00 us, 3 samples"));
    EXPECT_EQ(planned(measured(9, 8.9)).composition, present);
    EXPECT_EQ(planned(measured(9, 8.9)).measured, "");
  }
}

}  // namespace
}  // namespace weft
