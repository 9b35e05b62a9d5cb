// Kernels one after another on the blocks of one cluster, from the graph to the emulator: what one
// stores others read behind a barrier of the cluster.

#include "driver/explain/explain_text.h"
#include "driver/explain/kernel_summary.h"
#include "plan/fusion_plan.h"
#include "tests/driver/gpu_pipeline.h"
#include "tile/scope_analysis.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CompileOptions with(const std::string& compositions, const std::string& planner = "subprogram") {
  CompileOptions options;
  options.planner = planner;
  options.compositions = compositions;
  return options;
}

std::unique_ptr<Compilation> plan_of(const std::string& text, const char* device,
                                     CompileOptions options) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  options.device = *find_target(device);
  options.stop_after = "plan";
  auto compiled = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  return compiled.ok() ? std::move(*compiled) : nullptr;
}

/// Two products, the second of the rows of the first.
std::string two_products(const std::string& m, const std::string& n, const std::string& k) {
  return replaced(replaced(replaced(R"(
    (a: f32[$M,$N], w: f32[$N,$K], v: f32[$K,$N]) {
      p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[$M,$K]
      e = tanh p : f32[$M,$K]
      q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[$M,$N]
      s = reduce q, axes={1}, combiner=max : f32[$M]
      t = abs s : f32[$M]
    } -> (q, t))",
                                    "$M", m),
                           "$N", n),
                  "$K", k);
}

/// What is read in another shape than it is stored in, with a border, and again by a later phase.
constexpr const char* kOtherShapes = R"(
    (a: f32[24,50], w: f32[50,35]) {
      p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[24,35]
      r = reshape p : f32[8,3,35]
      s = reduce r, axes={0,1}, combiner=sum : f32[35]
      b = broadcast s, dims={1} : f32[24,35]
      d = sub p, b : f32[24,35]
      z = reshape d : f32[840]
      m = reduce z, axes={0}, combiner=max : f32[]
      n = broadcast m, dims={} : f32[24,35]
      y = sub d, n : f32[24,35]
    } -> (y))";

class GpuClusters : public GpuPipeline {
 protected:
  /// Equal to the interpreter without races, in one launch of one cluster, of so many members with
  /// so many barriers at least; and the same from the plan's text.
  static void expect_one_cluster(const std::string& text, size_t members, int64_t barriers) {
    for (const char* device : {"h100-sxm", "h200"}) {
      SCOPED_TRACE(std::string(device) + text);
      Target target = *find_target(device);
      target.launch_us = 3;  // worth a cluster's barriers
      const EmulatedRun run = run_and_compare(text, target, 1e-4, false, with("leaf,cluster"));
      ASSERT_NE(run.compilation, nullptr);
      const std::string plan = expect_plan_from_text(*run.compilation);
      ASSERT_EQ(run.launches.size(), 1U) << plan;
      const ScheduledKernel& only = run.schedule(0);
      EXPECT_EQ(only.composition.kind, Composition::Kind::kCluster);
      EXPECT_EQ(only.composition.members.size(), members) << plan;
      EXPECT_TRUE(only.program.one_cluster);
      const auto waits = [](const BarrierPoint& b) { return b.scope == Scope::kGrid; };
      EXPECT_GE(std::ranges::count_if(only.scopes.barriers, waits), barriers) << plan;
      const CudaKernel& code = run.launches[0].kernel;
      EXPECT_EQ(code.cluster, code.blocks);
      EXPECT_LE(code.blocks, 8);
      EXPECT_FALSE(code.grid_barrier);
      EXPECT_THAT(code.text,
                  HasSubstr(code.blocks > 1 ? "wf_sync_cluster();" : "wf_sync_block();"));
      EXPECT_THAT(code.text, Not(HasSubstr("wf_sync_grid")));
      expect_no_spills(run, {"sm_90"});
    }
  }
};

TEST_F(GpuClusters, ProductsAndRowsOneAfterAnother) {
  expect_one_cluster(two_products("37", "70", "40"), 2, 1);
  expect_one_cluster(two_products("9", "33", "130"), 2, 1);
  expect_one_cluster(two_products("1", "5", "3"), 3, 2);  // on one block
}

/// More tiles than a cluster has blocks are taken in turns, which a grid's products are not.
TEST_F(GpuClusters, TilesInTurns) {
  const std::string text = two_products("128", "33", "40");
  CompileOptions options = with("leaf,cluster");
  const auto c = plan_of(text, "h100-sxm", options);
  ASSERT_NE(c, nullptr);
  options.plan_text = replaced(*print_level(*c, "plan"), "cluster 8 {", "cluster 3 {");
  const EmulatedRun run = run_and_compare(text, *find_target("h100-sxm"), 1e-4, false, options);
  ASSERT_EQ(run.launches.size(), 1U);
  EXPECT_EQ(run.launches[0].kernel.blocks, 3);
}

TEST_F(GpuClusters, TensorsInOtherShapes) { expect_one_cluster(kOtherShapes, 3, 2); }

std::string recurrence(const std::string& steps, const std::string& rows,
                       const std::string& hidden) {
  const std::string text = R"(
(h0: f32[$B,$H], xs: f32[$T,$B,$H], w: f32[$H,$H]) {
  h, all = scan h0, xs, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[$B,$H], f32[$T,$B]
  region (h: f32[$B,$H], x: f32[$B,$H], w: f32[$H,$H]) {
    p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[$B,$H]
    a = add p, x : f32[$B,$H]
    n = tanh a : f32[$B,$H]
    m = reduce n, axes={1}, combiner=max : f32[$B]
  } -> (n, m)
  s = reduce all, axes={0}, combiner=sum : f32[$B]
} -> (h, s))";
  return replaced(replaced(replaced(text, "$T", steps), "$B", rows), "$H", hidden);
}

/// All steps of a loop on the blocks of a cluster, alone and with what reads them.
TEST_F(GpuClusters, StepsOfALoop) {
  int alone = 0, joined = 0;
  for (const auto& [steps, rows, hidden] :
       {std::tuple("7", "3", "64"), {"5", "1", "33"}, {"4", "9", "50"}}) {
    const std::string text = recurrence(steps, rows, hidden);
    for (const char* compositions : {"leaf,recur,cluster", "leaf,grid,recur,cluster"}) {
      SCOPED_TRACE(compositions + text);
      const EmulatedRun run =
          run_and_compare(text, *find_target("h100-sxm"), 1e-4, false, with(compositions));
      ASSERT_NE(run.compilation, nullptr);
      const std::string plan = expect_plan_from_text(*run.compilation);
      for (const auto& regions : run.compilation->plan.regions) {
        if (!runs_whole_loop(regions)) continue;
        EXPECT_GT(regions[0]->kernels[0].schedule.composition.cluster_blocks, 0) << plan;
        ++alone;
      }
      for (const PlannedKernel& kernel : run.compilation->plan.kernels) {
        for (const LoopMember& loop : kernel.loops)
          joined += loop.body->kernels[0].schedule.composition.cluster_blocks > 0 ? 1 : 0;
      }
      for (const Launch& launch : run.launches) EXPECT_FALSE(launch.kernel.grid_barrier) << plan;
      expect_no_spills(run, {"sm_90"});
    }
  }
  EXPECT_GE(alone + joined, 4);
  EXPECT_GE(joined, 1);
}

double predicted_us(const Compilation& c) {
  double us = 0;
  for (const PlannedKernel& kernel : c.plan.kernels) us += kernel.schedule.estimate.microseconds;
  return us;
}

/// By the kinds of compositions that are allowed, and on a device without clusters.
TEST(ClusterPlans, EachKindOfLaunchIsAllowedByItsName) {
  const std::string text = two_products("37", "70", "40");
  const auto kinds = [&](const char* device, const std::string& compositions) {
    const auto c = plan_of(text, device, with(compositions));
    std::vector<Composition::Kind> out;
    for (const PlannedKernel& kernel : c->plan.kernels)
      out.push_back(kernel.schedule.composition.kind);
    return out;
  };
  using Kind = Composition::Kind;
  const std::vector<Kind> apart{Kind::kLeaf, Kind::kLeaf};
  EXPECT_EQ(kinds("h200", "leaf"), apart);
  EXPECT_EQ(kinds("h200", "leaf,cluster"), std::vector{Kind::kCluster});
  EXPECT_EQ(kinds("h200", "leaf,grid,cluster"), std::vector{Kind::kCluster});
  EXPECT_EQ(kinds("a100-40gb", "leaf,cluster"), apart);
}

/// The quicker of both: a cluster where its blocks are enough, the grid where they are not.
TEST(ClusterPlans, WhatIsPredictedToSaveMoreIsTaken) {
  const std::string small = two_products("37", "70", "40");
  const auto both = plan_of(small, "h200", with("leaf,grid,cluster"));
  const auto grid = plan_of(small, "h200", with("leaf,grid"));
  EXPECT_LT(predicted_us(*both), predicted_us(*grid) - 0.5);
  const std::string large = two_products("512", "512", "512");
  const auto wide = plan_of(large, "h200", with("leaf,grid,cluster"));
  for (const PlannedKernel& kernel : wide->plan.kernels)
    EXPECT_EQ(kernel.schedule.composition.cluster_blocks, 0) << *print_level(*wide, "plan");
  const auto by_auto = plan_of(recurrence("64", "1", "64"), "h200", with("", "auto"));
  EXPECT_THAT(*print_level(*by_auto, "plan"), HasSubstr("recur cluster "));
}

/// A cluster has so many blocks at most, and some devices have none.
TEST(ClusterPlans, OneBlockTooManyIsRefused) {
  const auto c = plan_of(two_products("128", "33", "40"), "h100-sxm", with("leaf,cluster"));
  ASSERT_NE(c, nullptr);
  const std::string plan = *print_level(*c, "plan");
  ASSERT_THAT(plan, HasSubstr("by cluster 8 {"));
  const auto refused =
      parse_plan(replaced(plan, "cluster 8 {", "cluster 9 {"), c->tensors, c->target);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("a cluster of 9 blocks, h100-sxm has up to 8"));
  const auto none = parse_plan(plan, c->tensors, *find_target("a100-40gb"));
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("a cluster of 8 blocks, a100-40gb has none"));
  // Fewer have more turns.
  const auto fewer =
      parse_plan(replaced(plan, "cluster 8 {", "cluster 5 {"), c->tensors, c->target);
  ASSERT_TRUE(fewer.ok()) << fewer.error().message;
  EXPECT_TRUE(verify_plan(c->tensors, *fewer).ok());
  EXPECT_TRUE(fewer->kernels[0].schedule.program.blocks.is_const(5));
  // A plan that says another number than it runs on is none.
  FusionPlan wrong = *fewer;
  wrong.kernels[0].schedule.composition.cluster_blocks = 6;
  EXPECT_FALSE(verify_plan(c->tensors, wrong).ok());
}

TEST(ClusterPlans, ExplainProvesThatTheBlocksFormACluster) {
  const auto c = plan_of(two_products("128", "33", "40"), "h100-sxm", with("leaf,cluster"));
  ASSERT_NE(c, nullptr);
  EXPECT_THAT(residency_proof(c->plan.kernels[0], c->target),
              HasSubstr("cluster barrier: 8 blocks <= 8 of a cluster of h100-sxm"));
}

}  // namespace
}  // namespace weft::testing
