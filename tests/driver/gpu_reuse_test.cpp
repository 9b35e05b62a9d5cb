// What blocks of one launch keep on chip from kernel to kernel (Souffle §6.5), from the graph to
// the emulator: what memory is asked for, which barriers are left, and what the plan's text says.

#include <nlohmann/json.hpp>

#include "driver/explain/explain_json.h"
#include "driver/explain/explain_text.h"
#include "plan/fusion_plan.h"
#include "tests/driver/gpu_pipeline.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/rewrite/reuse_boxes.h"
#include "tile/text/tile_text.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GpuReuse : public GpuPipeline {
 protected:
  static CompileOptions options(bool keeps = true) {
    CompileOptions out;
    out.planner = "subprogram";
    out.compositions = "leaf,grid";
    if (!keeps) out.planner_parameters = "reuse=0";
    return out;
  }
  /// In one launch, without races and equal to the interpreter; the same from the plan's text.
  static EmulatedRun one_launch(const std::string& text, double tolerance, bool keeps = true) {
    EmulatedRun run =
        run_and_compare(text, *find_target("a100-40gb"), tolerance, false, options(keeps));
    EXPECT_NE(run.compilation, nullptr);
    if (run.compilation == nullptr) return run;
    EXPECT_EQ(run.launches.size(), 1U) << *print_level(*run.compilation, "plan");
    expect_no_spills(run);
    const std::string plan = *print_level(*run.compilation, "plan");
    const auto again = parse_plan(plan, run.compilation->tensors, *find_target("a100-40gb"));
    EXPECT_TRUE(again.ok()) << again.error().message << plan;
    if (!again.ok()) return run;
    EXPECT_EQ(print(*again, run.compilation->tensors), plan);
    EXPECT_EQ(tile_program_hash(again->kernels[0].schedule.program),
              tile_program_hash(run.schedule(0).program));
    return run;
  }
  static BoxReuse reuse(const EmulatedRun& run) {
    return reuse_of(run.schedule(0).program, run.schedule(0).scopes);
  }
  static int64_t grid_barriers(const EmulatedRun& run) {
    return std::ranges::count(run.schedule(0).scopes.barriers, Scope::kGrid, &BarrierPoint::scope);
  }
  /// Bytes that warps ask memory for, by buffer.
  static std::map<std::string, int64_t> read_of(const EmulatedRun& run) {
    std::map<std::string, int64_t> out;
    for (const simt::BufferTraffic& b : run.launches.at(0).report.traffic.buffers)
      out[b.name] = b.loads.distinct;
    return out;
  }
};

/// A map squeezed to a number a channel, two products, and the map scaled by what they make.
std::string squeeze(int64_t channels, int64_t pixels, int64_t reduced) {
  return replaced(replaced(replaced(R"(
      (x: f32[$M,$N], w: f32[$M,$K], v: f32[$K,$M]) {
        p = reduce x, axes={1}, combiner=sum : f32[$M]
        m = reshape p : f32[1,$M]
        a = dot_general m, w, lhs_contract={1}, rhs_contract={0} : f32[1,$K]
        b = sigmoid a : f32[1,$K]
        c = mul a, b : f32[1,$K]
        d = dot_general c, v, lhs_contract={1}, rhs_contract={0} : f32[1,$M]
        e = sigmoid d : f32[1,$M]
        f = reshape e : f32[$M]
        g = broadcast f, dims={0} : f32[$M,$N]
        y = mul x, g : f32[$M,$N]
      } -> (y))",
                                    "$M", std::to_string(channels)),
                           "$N", std::to_string(pixels)),
                  "$K", std::to_string(reduced));
}

/// One launch, a barrier for each dependence between blocks, and of all that is given nothing is
/// asked for twice.
TEST_F(GpuReuse, SqueezeAndExciteReadsItsMapOnce) {
  for (const auto& [channels, pixels, reduced] :
       {std::tuple(33, 49, 5), {70, 121, 9}, {17, 1003, 3}, {200, 36, 12}}) {
    SCOPED_TRACE(std::to_string(channels) + " x " + std::to_string(pixels));
    const std::string text = squeeze(channels, pixels, reduced);
    const EmulatedRun run = one_launch(text, 1e-3);
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_GE(reuse(run).hits, 1) << *print_level(*run.compilation, "plan");
    EXPECT_EQ(reuse(run).evictions, 0);
    const bool parts = run.schedule(0).schedule_template.find("over blocks") != std::string::npos;
    EXPECT_EQ(grid_barriers(run), parts ? 4 : 3) << *print_level(*run.compilation, "plan");
    auto read = read_of(run);
    EXPECT_EQ(read.at("x"), channels * pixels * 4);
    // Without, the map is asked for again.
    const EmulatedRun again = one_launch(text, 1e-3, false);
    ASSERT_NE(again.compilation, nullptr);
    EXPECT_EQ(reuse(again).hits, 0);
    EXPECT_GE(read_of(again).at("x"), 2 * channels * pixels * 4);
    EXPECT_THAT(*print_level(*again.compilation, "plan"), HasSubstr(" rereading because"));
  }
}

/// Products of one shape are cut alike: the third finds the tile of the first that it adds, which
/// the second one's blocks read from memory.
TEST_F(GpuReuse, TilesAddToWhatTheirBlockMade) {
  const EmulatedRun run = one_launch(R"(
      (x: f32[70,50], w: f32[50,50], v: f32[50,50], z: f32[50,50]) {
        p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[70,50]
        h = tanh p : f32[70,50]
        q = dot_general h, v, lhs_contract={1}, rhs_contract={0} : f32[70,50]
        u = tanh q : f32[70,50]
        r = dot_general u, z, lhs_contract={1}, rhs_contract={0} : f32[70,50]
        y = add r, h : f32[70,50]
      } -> (y))",
                                     1e-4);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_GE(reuse(run).hits, 1) << *print_level(*run.compilation, "plan");
  EXPECT_EQ(grid_barriers(run), 2);
}

/// A plan by hand: kernels of equal boxes, of which the first makes what the second alone reads.
std::string handed_plan(const std::string& second, const std::string& outputs) {
  return "plan subprogram { kernel k memory \"one after another: elementwise | elementwise\" by "
         "grid { "
         "leaf(rows vec_axis 0 free [0] digits {0: WARP_4-LANE_32-VEC_2} warps 4); leaf(rows "
         "vec_axis 0 free [0] digits {0: " +
         second + "} warps 4) } because \"by hand\": t | y -> " + outputs + " }";
}
constexpr const char* kHanded =
    "(x: f32[37,70]) { t = tanh x : f32[37,70]\n y = mul t, x : f32[37,70] } -> (y)";

/// It is never stored, no barrier of the grid is left, and one of the block where other threads of
/// it read.
TEST_F(GpuReuse, WhatABlockHandsItselfIsNeverStored) {
  for (const char* second : {"WARP_4-LANE_32-VEC_2", "LANE_32-WARP_4-VEC_2"}) {
    SCOPED_TRACE(second);
    CompileOptions o;
    o.plan_text = handed_plan(second, "y keeping t");
    const EmulatedRun run =
        run_and_compare(kHanded, *find_target("a100-40gb"), 1e-5, false, std::move(o));
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_EQ(reuse(run).hits, 2);
    EXPECT_EQ(grid_barriers(run), 0);
    const auto read = read_of(run);
    EXPECT_EQ(read.size(), 2U);  // x and y
    EXPECT_EQ(read.at("x"), 37 * 70 * 4);
    EXPECT_THAT(*print_level(*run.compilation, "plan"), HasSubstr("-> y keeping t\n"));
  }
}

TEST_F(GpuReuse, RefusesToKeepWhatOtherBlocksRead) {
  const auto error = [](const std::string& text) {
    CompileOptions o;
    o.device = *find_target("a100-40gb");
    o.plan_text = text;
    const auto c = compile_graph(*parse_graph(kHanded), o);
    EXPECT_FALSE(c.ok()) << text;
    return c.ok() ? std::string() : c.error().message;
  };
  EXPECT_THAT(error(handed_plan("WARP_2-LANE_32-VEC_2", "y keeping t")),
              HasSubstr("not every block that reads t has made it"));
  EXPECT_THAT(error(handed_plan("WARP_4-LANE_32-VEC_2", "y, t keeping t")),
              HasSubstr("keeps it twice"));
  EXPECT_THAT(error(handed_plan("WARP_4-LANE_32-VEC_2", "y keeping x")),
              HasSubstr("no member of this kernel makes"));
}

/// V3 reads all of it again, V4 does not.
TEST_F(GpuReuse, AblationIsAStepOfSouffle) {
  for (const auto& [planner, keeps] : {std::pair("souffle-v3", false), {"souffle-v4", true}}) {
    CompileOptions o;
    o.device = *find_target("a100-40gb");
    o.planner = planner;
    o.compositions = "leaf,grid";
    o.stop_after = "plan";
    auto c = compile_graph(*parse_graph(squeeze(96, 3136, 4)), o);
    ASSERT_TRUE(c.ok()) << c.error().message;
    int64_t hits = 0;
    for (const PlannedKernel& k : (*c)->plan.kernels)
      hits += reuse_of(k.schedule.program, k.schedule.scopes).hits;
    EXPECT_EQ(hits > 0, keeps) << planner;
  }
}

TEST_F(GpuReuse, ExplainSaysWhatIsKept) {
  CompileOptions o = options();
  o.device = *find_target("a100-40gb");
  o.stop_after = "plan";
  const auto c = compile_graph(*parse_graph(squeeze(96, 3136, 4)), o);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_THAT(explain_text(explained(**c)),
              HasSubstr("kept on chip: 1 reads find it there, 0 are given up, 1204 KB not read "
                        "again, 13 KB of a block"));
  const auto kept =
      nlohmann::json::parse(explain_json(explained(**c)))["kernels"][0]["kept_on_chip"];
  EXPECT_EQ(kept["hits"], 1);
  EXPECT_EQ(kept["evictions"], 0);
  EXPECT_EQ(kept["bytes_saved"], 96 * 3136 * 4);
  EXPECT_EQ(kept["bytes_of_a_block"], 3136 * 4);
  EXPECT_TRUE(kept["never_stored"].empty());
}

}  // namespace
}  // namespace weft::testing
