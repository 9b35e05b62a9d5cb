// A loop whose iterations are a kernel, as a member of a larger launch: the plan, its text, and
// what is refused.

#include "plan/loop_member.h"

#include <gmock/gmock.h>

#include "expr/movement/lend_constants.h"
#include "expr/movement/separate_outputs.h"
#include "expr/movement/sink_constants.h"
#include "tests/plan/planned.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// A product of the inputs of all steps, the steps, and what reads them.
TensorProgram around_a_loop() {
  auto graph = parse_graph(R"((h0: f32[3,48], xs: f32[5,3,48], v: f32[48,48]) {
  c = constant {0.5, -2, 1} : f32[3]
  p = dot_general xs, v, lhs_contract={2}, rhs_contract={0} : f32[5,3,48]
  last, all = scan h0, p, v, c, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[3,48], f32[5,3,48]
    region (h: f32[3,48], x: f32[3,48], v: f32[48,48], c: f32[3]) {
      q = dot_general h, v, lhs_contract={1}, rhs_contract={0} : f32[3,48]
      b = broadcast c, dims={0} : f32[3,48]
      r = mul q, b : f32[3,48]
      a = add r, x : f32[3,48]
      n = tanh a : f32[3,48]
    } -> (n, y=n)
  s = reduce all, axes={0}, combiner=max : f32[3,48]
} -> (last, s))");
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  auto program = express(*graph);
  EXPECT_TRUE(program.ok()) << program.error().message;
  sink_constants(*program);
  fold_movement(*program);
  fold_movement(*program->opaques[0].regions[0]);
  remove_dead_expressions(*program);
  separate_outputs(*program);
  return std::move(*program);
}

class LoopMembers : public ::testing::Test {
 protected:
  LoopMembers() : program_(around_a_loop()) { lend_constants(program_); }

  FusionPlan joined() const { return plan_of(program_, target_, "subprogram"); }
  std::string error_of(const std::string& text) const {
    const auto parsed = parse_plan(text, program_, target_);
    EXPECT_FALSE(parsed.ok()) << text;
    return parsed.ok() ? "" : parsed.error().message;
  }
  static std::string changed(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << text;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }

  TensorProgram program_;
  const Target target_ = *find_target("a100-40gb");
};

TEST_F(LoopMembers, ShareALaunchWithWhatIsAroundThem) {
  const FusionPlan plan = joined();
  const std::string text = print(plan, program_);
  ASSERT_EQ(plan.order.size(), 1U) << text;
  ASSERT_EQ(plan.kernels.size(), 1U) << text;
  const PlannedKernel& kernel = plan.kernels[0];
  ASSERT_EQ(kernel.loops.size(), 1U) << text;
  EXPECT_EQ(kernel.members.size(), 3U) << text;
  EXPECT_EQ(kernel.loops[0].member, 1U) << text;
  EXPECT_TRUE(plan.regions.at(0).empty());
  EXPECT_THAT(text, HasSubstr("p | opaque 0 scan | s -> p, last, all, s\n    region plan "));
  EXPECT_THAT(kernel.packed_because, HasSubstr("3 kernels in 3 phases, 1 of them all steps of a "
                                               "loop"));
  // The loop is as it is alone; together they take less.
  double apart = 0;
  PlanOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,block,recur";
  const auto steps = plan_fusion(program_, target_, options);
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  ASSERT_TRUE(runs_whole_loop(steps->regions.at(0)));
  apart += steps->regions[0][0]->kernels[0].schedule.estimate.microseconds;
  for (const PlannedKernel& other : steps->kernels) apart += other.schedule.estimate.microseconds;
  EXPECT_LT(kernel.schedule.estimate.microseconds, apart);
  // Its text builds the same.
  const auto again = parse_plan(text, program_, target_);
  ASSERT_TRUE(again.ok()) << again.error().message << text;
  EXPECT_EQ(print(*again, program_), text);
  EXPECT_EQ(tile_program_hash(again->kernels[0].schedule.program),
            tile_program_hash(kernel.schedule.program));
  EXPECT_EQ(again->kernels[0].schedule.parameters, kernel.schedule.parameters);
}

/// Launches and barriers are what such a launch is about, and their cost is known: it has to save a
/// part of that, not of all that its kernels take.
TEST_F(LoopMembers, ShareALaunchByAutoWhereLaunchesAreSaved) {
  const FusionPlan plan = plan_of(program_, target_, "auto");
  ASSERT_EQ(plan.kernels.size(), 1U) << print(plan, program_);
  EXPECT_EQ(plan.kernels[0].loops.size(), 1U);
  Target free = target_;
  free.launch_us = free.barrier_us / 2;
  for (const PlannedKernel& kernel : plan_of(program_, free, "auto").kernels)
    EXPECT_TRUE(kernel.loops.empty());
}

/// Without a constant of the program for the body's, nothing names it in a launch of the program.
TEST_F(LoopMembers, NeedTheirConstants) {
  const TensorProgram without = around_a_loop();
  const FusionPlan plan = plan_of(without, target_, "subprogram");
  ASSERT_TRUE(runs_whole_loop(plan.regions.at(0))) << print(plan, without);
  const auto loop = whole_loop(without, 0, *plan.regions[0][0]);
  ASSERT_FALSE(loop.ok());
  EXPECT_THAT(loop.error().message, HasSubstr("lacks its c"));
}

TEST_F(LoopMembers, OfACpuAreStepsOfTheirOwn) {
  const std::string text = print(joined(), program_);
  const auto on_cpu = parse_plan(text, program_, *find_target("x86-64-v4"));
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.error().message;
  EXPECT_EQ(on_cpu->kernels.size(), 2U);
  ASSERT_EQ(on_cpu->order.size(), 3U);
  EXPECT_TRUE(on_cpu->order[1].opaque);
  EXPECT_EQ(on_cpu->regions.at(0).size(), 1U);
}

TEST_F(LoopMembers, TextsThatAreWrongSayWhy) {
  const std::string text = print(joined(), program_);
  EXPECT_THAT(error_of(changed(text, "opaque 0 scan", "opaque 1 scan")),
              HasSubstr("the program has no such opaque step"));
  EXPECT_THAT(error_of(changed(text, "opaque 0 scan", "opaque 0 sort")), HasSubstr("scan"));
  EXPECT_THAT(error_of(changed(text, "-> p, last, all, s", "-> p, last, s")),
              HasSubstr("what a loop gives is stored"));
  // Its region's plan runs each step for itself, by a template of another name.
  const size_t recur = text.rfind(" by recur");
  std::string apart = text.substr(0, recur) + text.substr(text.find(" because", recur));
  EXPECT_THAT(error_of(apart), HasSubstr("made by the template"));
  // The launch composes it otherwise.
  const size_t inside = text.find("recur ");
  ASSERT_NE(inside, std::string::npos);
  const size_t end = text.find("}", inside);
  EXPECT_THAT(error_of(text.substr(0, inside) + "leaf(tiles m 16 n 16 k 16 warps_m 1 warps_n 1)" +
                       text.substr(end + 1)),
              HasSubstr("in the plan of its region"));
}

TEST_F(LoopMembers, PlansThatAreWrongAreFound) {
  const FusionPlan sound = joined();
  const auto message = [&](const FusionPlan& plan) {
    const Status status = verify_plan(program_, plan);
    return status.ok() ? std::string() : status.error().message;
  };
  FusionPlan plan = sound;
  plan.order.push_back({true, 0});
  EXPECT_THAT(message(plan), HasSubstr("opaque step 0 runs 2 times"));
  plan = sound;
  plan.kernels[0].loops.clear();
  EXPECT_THAT(message(plan), HasSubstr("opaque step 0 runs 0 times"));
  plan = sound;
  plan.kernels[0].loops[0].opaque = 7;
  EXPECT_THAT(message(plan), HasSubstr("a loop that is not there"));
  plan = sound;
  plan.kernels[0].loops[0].member = 0;
  EXPECT_THAT(message(plan), HasSubstr("no member of it"));
  plan = sound;
  plan.kernels[0].schedule.composition.members[1] = plan.kernels[0].schedule.composition.members[0];
  EXPECT_THAT(message(plan), HasSubstr("composes a loop otherwise"));
  plan = sound;
  std::erase(plan.kernels[0].group.outputs, program_.opaques[0].results[1]);
  EXPECT_NE(message(plan), "");
}

}  // namespace
}  // namespace weft
