// Kernels one after another in one launch, from the graph to the emulator: what one stores others
// read behind a barrier of the grid, also in another shape.

#include "tests/driver/gpu_pipeline.h"
#include "tile/scope_analysis.h"

namespace weft::testing {
namespace {

class GpuGrids : public GpuPipeline {
 protected:
  /// Equal to the interpreter without races, in so many launches, one of them of so many members
  /// with so many barriers at least; and the same from the plan's text.
  static void expect_joined(const std::string& text, size_t launches, size_t members,
                            size_t barriers, double tolerance = 1e-4) {
    for (const char* device : {"a100-40gb", "rtx3080"}) {
      SCOPED_TRACE(std::string(device) + text);
      CompileOptions options;
      options.planner = "subprogram";
      options.compositions = "leaf,grid";
      const EmulatedRun run =
          run_and_compare(text, *find_target(device), tolerance, false, options);
      ASSERT_NE(run.compilation, nullptr);
      const std::string plan = expect_plan_from_text(*run.compilation);
      EXPECT_EQ(run.launches.size(), launches) << plan;
      const ScheduledKernel* most = nullptr;
      for (const PlannedKernel& kernel : run.compilation->plan.kernels) {
        if (kernel.members.size() == members) most = &kernel.schedule;
      }
      ASSERT_NE(most, nullptr) << plan;
      EXPECT_EQ(most->composition.kind, Composition::Kind::kGrid);
      const auto of_grid = [](const BarrierPoint& b) { return b.scope == Scope::kGrid; };
      EXPECT_GE(std::ranges::count_if(most->scopes.barriers, of_grid), barriers) << plan;
      expect_no_spills(run);
    }
  }
};

/// Two products, the second with the maxima of its rows.
TEST_F(GpuGrids, ProductsAndRowsOneAfterAnother) {
  for (const char* sizes : {"37 70 40", "64 64 64", "9 33 130"}) {
    std::istringstream in(sizes);
    std::string m, n, k;
    in >> m >> n >> k;
    expect_joined(replaced(replaced(replaced(R"(
      (a: f32[$M,$N], w: f32[$N,$K], v: f32[$K,$N]) {
        p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[$M,$K]
        e = tanh p : f32[$M,$K]
        q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[$M,$N]
        s = reduce q, axes={1}, combiner=max : f32[$M]
        t = abs s : f32[$M]
      } -> (q, t))",
                                             "$M", m),
                                    "$N", n),
                           "$K", k),
                  1, 2, 1);
  }
}

/// Rows of eight warps a block would leave an SM room for fewer blocks than the product has tiles:
/// they are on four.
TEST_F(GpuGrids, RowsOnFewerWarpsBesideAProduct) {
  expect_joined(R"(
    (x: f32[64,49,32], w: f32[64,49,32]) {
      y = tanh x : f32[64,49,32]
      q = dot_general y, w, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={2} : f32[64,49,49]
    } -> (q))",
                1, 2, 1);
}

/// Towers side by side share the barriers between their layers.
TEST_F(GpuGrids, TowersShareBarriers) {
  expect_joined(R"(
    (a: f32[37,70], w: f32[70,40], v: f32[40,33], b: f32[21,50], x: f32[50,36], z: f32[36,48]) {
      p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[37,40]
      e = tanh p : f32[37,40]
      q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[37,33]
      c = dot_general b, x, lhs_contract={1}, rhs_contract={0} : f32[21,36]
      d = abs c : f32[21,36]
      f = dot_general d, z, lhs_contract={1}, rhs_contract={0} : f32[21,48]
    } -> (q, f))",
                1, 4, 1);
}

/// What is read in another shape than it is stored in, with a border, and again by a later phase.
TEST_F(GpuGrids, TensorsInOtherShapes) {
  expect_joined(R"(
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
    } -> (y))",
                1, 3, 2);
}

const RowsChoice* rows_of(const PlannedKernel& launch, size_t member) {
  return std::get_if<RowsChoice>(&launch.schedule.composition.members.at(member).choice);
}

/// AStitch's thread mapping behind a barrier. Short rows share a block, and blocks go through them
/// in turns: all are on the device at once.
TEST_F(GpuGrids, ShortRowsArePackedAndWalked) {
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,grid";
  const Target target = with_sms(*find_target("a100-40gb"), 4);
  const EmulatedRun run = run_and_compare(R"(
    (a: f32[64,32], w: f32[32,48], x: f32[3000,24]) {
      p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[64,48]
      g = reduce p, axes={0,1}, combiner=max : f32[]
      b = broadcast g, dims={} : f32[3000,24]
      t = mul x, b : f32[3000,24]
      m = reduce t, axes={1}, combiner=max : f32[3000]
      n = broadcast m, dims={0} : f32[3000,24]
      y = sub t, n : f32[3000,24]
    } -> (y))",
                                          target, 1e-4, false, options);
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(run.launches.size(), 1U) << run.compilation->plan.kernels.size();
  const PlannedKernel& launch = run.compilation->plan.kernels[0];
  const RowsChoice* rows = rows_of(launch, launch.members.size() - 1);
  ASSERT_NE(rows, nullptr);
  const auto on_lanes = [](const auto& digits) {
    return std::ranges::any_of(digits,
                               [](const Place::Digit& d) { return d.level == PlaceLevel::kLane; });
  };
  EXPECT_TRUE(on_lanes(rows->digits.at(rows->free[0]))) << "several rows a warp";
  const int64_t blocks = launch.schedule.program.blocks.constant();
  EXPECT_LE(blocks, launch.schedule.program.per_sm * target.sm_count);
  int64_t rows_at_once = 1;
  for (const Place::Digit& d : rows->digits.at(rows->free[0])) rows_at_once *= d.extent;
  EXPECT_LT(blocks * rows_at_once, 3000) << "blocks take several turns";
}

/// Few long rows are split over blocks, and what is reduced level by level has a nest each. What
/// only the last one asks for (q, made of c) is made there, and nowhere before.
TEST_F(GpuGrids, LongRowsAreSplitBehindBarriers) {
  for (const char* length : {"65536", "80021"}) {
    const std::string text = replaced(R"(
    (w: f32[8,8], x: f32[8,$N]) {
      p = dot_general w, w, lhs_contract={1}, rhs_contract={0} : f32[8,8]
      g = reduce p, axes={1}, combiner=max : f32[8]
      b = broadcast g, dims={0} : f32[8,$N]
      t = mul x, b : f32[8,$N]
      m = reduce t, axes={1}, combiner=max : f32[8]
      n = broadcast m, dims={0} : f32[8,$N]
      d = sub t, n : f32[8,$N]
      e = exp d : f32[8,$N]
      s = reduce e, axes={1}, combiner=sum : f32[8]
      r = broadcast s, dims={0} : f32[8,$N]
      c = tanh t : f32[8,$N]
      q = sub c, n : f32[8,$N]
      z = mul e, q : f32[8,$N]
      y = div z, r : f32[8,$N]
    } -> (y, s))",
                                      "$N", length);
    CompileOptions options;
    options.planner = "subprogram";
    options.compositions = "leaf,grid";
    const EmulatedRun run = run_and_compare(text, *find_target("a100-40gb"), 1e-4, false, options);
    ASSERT_NE(run.compilation, nullptr);
    const std::string plan = expect_plan_from_text(*run.compilation);
    ASSERT_EQ(run.launches.size(), 1U) << plan;
    const PlannedKernel& launch = run.compilation->plan.kernels[0];
    const RowsChoice* rows = rows_of(launch, launch.members.size() - 1);
    ASSERT_NE(rows, nullptr) << plan;
    EXPECT_TRUE(rows->apart) << plan;
    EXPECT_GT(rows->parts, 1);
    const auto of_grid = [](const BarrierPoint& b) { return b.scope == Scope::kGrid; };
    EXPECT_GE(std::ranges::count_if(launch.schedule.scopes.barriers, of_grid), 3) << plan;
    expect_no_spills(run);
  }
}

}  // namespace
}  // namespace weft::testing
