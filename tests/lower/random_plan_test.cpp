#include <gtest/gtest.h>

#include "expr/movement/assign_layouts.h"
#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "expr/movement/sink_movement.h"
#include "expr/products/merge_products.h"
#include "expr/products/part_products.h"
#include "lower/lower.h"
#include "plan/planners/plan_fusion.h"
#include "tests/expr/expr_testing.h"
#include "tests/graph/random_graph.h"
#include "tests/lower/lowered_program.h"
#include "tests/lower/run_kernel.h"
#include "tile/text/tile_text.h"

namespace weft::testing {
namespace {

/// Each kernel of the plan on the values that the expressions before it have, against its own.
void check_kernels(const FusionPlan& plan, const TensorProgram& program,
                   const std::vector<HostTensor>& values, const Target& target,
                   bool special_values) {
  for (const PlannedKernel& planned : plan.kernels) {
    // What padding excludes adds nothing; as a zero it would make NaN of an infinite factor.
    const bool contracts = planned.schedule.schedule_template.starts_with("contract");
    if (special_values && contracts) continue;
    const TileProgram& tile = planned.schedule.program;
    SCOPED_TRACE(print(tile));
    const Result<KernelFunction> kernel = lower_to_kernel(tile, planned.schedule.scopes, target);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const Status verified = verify_kernel(*kernel);
    ASSERT_TRUE(verified.ok()) << verified.error().message << "\n" << print(*kernel);
    for (const int parts : {1, 3}) {
      const auto run = run_planned(program, planned.schedule, *kernel, values, parts);
      ASSERT_TRUE(run.ok()) << run.error().message << "\n" << print(*kernel);
      EXPECT_EQ(difference_near(run->expected, run->got), "") << parts << " parts\n"
                                                              << print(*kernel);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

void check_plan(uint64_t seed, const RandomGraphOptions& options) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  TestRandom random(seed * 31 + 5);
  const Graph graph = random_graph(seed, options);
  const std::vector<HostTensor> inputs = random_inputs(graph, seed + 7, options.special_values);
  TensorProgram program = expressed(graph);
  fold_movement(program);
  sink_movement(program);
  merge_products(program);
  part_products(program, 1);
  remove_dead_expressions(program);
  assign_layouts(program, true);
  const Target target = test_target(static_cast<int>(16 << random.between(0, 2)));
  PlanOptions plan_options;
  plan_options.planner = random.pick(std::vector<std::string>{"none", "xla", "auto", "dp"});
  const Result<FusionPlan> plan = plan_fusion(program, target, plan_options);
  ASSERT_TRUE(plan.ok()) << plan.error().message << "\n" << print(program);
  SCOPED_TRACE(print(program));
  const auto values = all_tensors(program, inputs);
  ASSERT_TRUE(values.ok()) << values.error().message;
  check_kernels(*plan, program, *values, target, options.special_values);
}

TEST(RandomPlans, KernelsComputeTheirExpressions) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    check_plan(seed, {.nodes = 10, .control_flow = false, .special_values = false});
    if (HasFailure()) return;
  }
}

TEST(RandomPlans, LongerAxesHaveAnInterior) {
  for (uint64_t seed = 2000; seed < 2150; ++seed) {
    check_plan(seed, {.nodes = 6, .longest = 23, .control_flow = false, .special_values = false});
    if (HasFailure()) return;
  }
}

TEST(RandomPlans, SpecialValuesSurvive) {
  for (uint64_t seed = 1000; seed < 1150; ++seed) {
    check_plan(seed, {.nodes = 8, .control_flow = false});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::testing
