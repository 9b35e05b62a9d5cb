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

}  // namespace
}  // namespace weft::testing
