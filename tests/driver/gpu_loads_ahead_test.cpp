// Blocks of one launch ask for what none of its kernels makes before they wait for each other
// (Souffle §6.5), from the graph to the emulator.

#include <nlohmann/json.hpp>

#include "cost/gpu_latency.h"
#include "driver/explain/explain_json.h"
#include "driver/explain/explain_text.h"
#include "plan/fusion_plan.h"
#include "tests/driver/gpu_pipeline.h"
#include "tile/analysis/loads_ahead.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/text/tile_text.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GpuLoadsAhead : public GpuPipeline {
 protected:
  static CompileOptions options(bool ahead = true) {
    CompileOptions out;
    out.planner = "subprogram";
    out.compositions = "leaf,grid";
    if (!ahead) out.planner_parameters = "ahead=0";
    return out;
  }
  /// In one launch, without races and equal to the interpreter; the same from the plan's text.
  static EmulatedRun one_launch(const std::string& text, bool ahead = true,
                                const Target& target = *find_target("a100-40gb")) {
    const bool halves = text.find("f16") != std::string::npos;
    EmulatedRun run = run_and_compare(text, target, halves ? 1e-2 : 1e-4, false, options(ahead));
    EXPECT_NE(run.compilation, nullptr);
    if (run.compilation == nullptr) return run;
    EXPECT_EQ(run.launches.size(), 1U) << *print_level(*run.compilation, "plan");
    expect_no_spills(run);
    const std::string plan = *print_level(*run.compilation, "plan");
    const auto again = parse_plan(plan, run.compilation->tensors, target);
    EXPECT_TRUE(again.ok()) << again.error().message << plan;
    if (!again.ok()) return run;
    EXPECT_EQ(print(*again, run.compilation->tensors), plan);
    EXPECT_EQ(tile_program_hash(again->kernels[0].schedule.program),
              tile_program_hash(run.schedule(0).program));
    return run;
  }
  static std::vector<LoopAhead> loops(const EmulatedRun& run) {
    const ScheduledKernel& kernel = run.schedule(0);
    return loops_ahead(structure_of(kernel.program), kernel.scopes, /*marked=*/true);
  }
  /// Bit for bit.
  static void expect_equal(const EmulatedRun& a, const EmulatedRun& b) {
    ASSERT_EQ(a.outputs.size(), b.outputs.size());
    for (size_t o = 0; o < a.outputs.size(); ++o) {
      for (int64_t i = 0; i < a.outputs[o].size(); ++i)
        ASSERT_EQ(a.outputs[o].at_double(i), b.outputs[o].at_double(i)) << o << ", " << i;
    }
  }
  /// Bytes that warps ask memory for, in all.
  static int64_t requested(const EmulatedRun& run) {
    int64_t out = 0;
    for (const simt::BufferTraffic& b : run.launches.at(0).report.traffic.buffers)
      out += b.loads.distinct;
    return out;
  }
};

/// Three products of one type, each of what the one before makes.
std::string layers(const char* type, int m, int k, int n, int o, int q) {
  std::string text = R"(
      (x: $T[$M,$K], w: $T[$K,$N], v: $T[$N,$O], z: $T[$O,$Q]) {
        p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : $T[$M,$N]
        h = tanh p : $T[$M,$N]
        r = dot_general h, v, lhs_contract={1}, rhs_contract={0} : $T[$M,$O]
        u = tanh r : $T[$M,$O]
        y = dot_general u, z, lhs_contract={1}, rhs_contract={0} : $T[$M,$Q]
      } -> (y))";
  for (const auto& [name, value] : {std::pair("$M", m), {"$K", k}, {"$N", n}, {"$O", o}, {"$Q", q}})
    text = replaced(std::move(text), name, std::to_string(value));
  return replaced(std::move(text), "$T", type);
}

/// At odd sizes, where elements are too small for copies, and at others: weights of products behind
/// a barrier, no byte more.
TEST_F(GpuLoadsAhead, WeightsOfProducts) {
  for (const char* type : {"f32", "f16"}) {
    for (const auto& [m, k, n, o, q] :
         {std::tuple(37, 72, 40, 56, 24), {70, 48, 104, 88, 40}, {9, 33, 131, 65, 11}}) {
      SCOPED_TRACE(layers(type, m, k, n, o, q));
      const EmulatedRun run = one_launch(layers(type, m, k, n, o, q));
      ASSERT_NE(run.compilation, nullptr);
      if (k % 2 == 0) EXPECT_GE(loops(run).size(), 1U) << print(run.schedule(0).program);
      EXPECT_THAT(*print_level(*run.compilation, "plan"), Not(HasSubstr(" waiting ")));
      const EmulatedRun waiting = one_launch(layers(type, m, k, n, o, q), false);
      ASSERT_NE(waiting.compilation, nullptr);
      EXPECT_TRUE(loops(waiting).empty());
      EXPECT_FALSE(has_loop_ahead(waiting.schedule(0).program.body));
      EXPECT_THAT(*print_level(*waiting.compilation, "plan"), HasSubstr(" waiting because"));
      EXPECT_EQ(requested(run), requested(waiting));
      expect_equal(run, waiting);
      const auto predicted = predict_traffic(run.schedule(0).program, run.schedule(0).scopes);
      ASSERT_TRUE(predicted.ok());
      if (k % 2 == 0) EXPECT_EQ(predicted->requested_read, requested(run));
    }
  }
}

/// Products side by side between the same barriers: a block copies for the one that it has a tile
/// of, and for none where it has no tile.
TEST_F(GpuLoadsAhead, TowersSideBySide) {
  const EmulatedRun run = one_launch(R"(
    (a: f32[37,72], w: f32[72,56], v: f32[56,36], b: f32[21,52], x: f32[52,56], z: f32[56,48]) {
      p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[37,56]
      e = tanh p : f32[37,56]
      q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[37,36]
      c = dot_general b, x, lhs_contract={1}, rhs_contract={0} : f32[21,56]
      d = abs c : f32[21,56]
      f = dot_general d, z, lhs_contract={1}, rhs_contract={0} : f32[21,48]
    } -> (q, f))");
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(loops(run).size(), 2U) << print(run.schedule(0).program);
  EXPECT_EQ(loops(run)[0].nests, 2U);
}

/// A plan of a larger device, so that there are more tiles than blocks: those that a block comes to
/// later load behind the barrier.
TEST_F(GpuLoadsAhead, LaterTilesOfABlock) {
  const Target small = with_sms(*find_target("a100-40gb"), 1);
  const std::string text = layers("f16", 70, 64, 136, 200, 72);
  const auto run_it = [&](bool ahead) {
    CompileOptions large = options(ahead);
    large.device = *find_target("a100-40gb");
    large.stop_after = "plan";
    const auto planned = compile_graph(*parse_graph(text), large);
    EXPECT_TRUE(planned.ok()) << planned.error().message;
    CompileOptions o;
    if (planned.ok()) o.plan_text = *print_level(**planned, "plan");
    return run_and_compare(text, small, 5e-2, false, std::move(o));
  };
  const EmulatedRun run = run_it(true), waiting = run_it(false);
  ASSERT_TRUE(run.compilation != nullptr && waiting.compilation != nullptr);
  const TileProgram& program = run.schedule(0).program;
  ASSERT_GE(loops(run).size(), 1U) << print(program);
  int64_t tiles = 1;
  for (const TileLoop::Dim& dim :
       program.body[static_cast<size_t>(loops(run)[0].path[0])].loop->dims)
    tiles *= (dim.end.constant() + dim.step - 1) / dim.step;
  EXPECT_GT(tiles, program.blocks.constant());
  expect_equal(run, waiting);
}

TEST_F(GpuLoadsAhead, ExplainSaysWhatGoesAhead) {
  CompileOptions o = options();
  o.device = *find_target("a100-40gb");
  o.stop_after = "plan";
  const auto c = compile_graph(*parse_graph(layers("f32", 64, 64, 64, 64, 64)), o);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_THAT(explain_text(explained(**c)), HasSubstr("ahead of barriers: "));
  const auto ahead =
      nlohmann::json::parse(explain_json(explained(**c)))["kernels"][0]["ahead_of_barriers"];
  EXPECT_EQ(ahead["tensors"], nlohmann::json::parse(R"(["v", "z"])"));
  EXPECT_GT(ahead["bytes_of_a_block"], 0);
  EXPECT_GT(ahead["hidden_us"], 0);
  // What is hidden is not taken.
  CompileOptions waits = options(false);
  waits.device = o.device;
  waits.stop_after = "plan";
  const auto w = compile_graph(*parse_graph(layers("f32", 64, 64, 64, 64, 64)), waits);
  ASSERT_TRUE(w.ok()) << w.error().message;
  const auto us = [](const Compilation& of) {
    return of.plan.kernels.at(0).schedule.estimate.microseconds;
  };
  EXPECT_NEAR(us(**w) - us(**c), ahead["hidden_us"].get<double>(), 1e-9);
}

}  // namespace
}  // namespace weft::testing
