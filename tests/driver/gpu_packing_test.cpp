// Independent kernels in one launch, from the graph to the emulator: each on blocks of its own, of
// other shapes and templates, with warps left over, and what they ask of memory.

#include "lower/lower.h"
#include "tests/driver/gpu_pipeline.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_text.h"

namespace weft::testing {
namespace {

class GpuPacking : public GpuPipeline {
 protected:
  /// As leaves: equal to the interpreter, with as many launches as the plan has kernels, the
  /// traffic that it predicts, and some kernel of so many members.
  static void expect_packed(const std::string& text, size_t members, bool same_warps,
                            double tolerance = 1e-4) {
    SCOPED_TRACE(text);
    CompileOptions options;
    options.compositions = "leaf";
    const EmulatedRun run =
        run_and_compare(text, *find_target("h100-sxm"), tolerance, false, options);
    ASSERT_NE(run.compilation, nullptr);
    const FusionPlan& plan = run.compilation->plan;
    ASSERT_EQ(run.launches.size(), plan.kernels.size());
    size_t most = 0;
    for (size_t k = 0; k < plan.order.size(); ++k) {
      const auto number = static_cast<size_t>(plan.order[k].index);
      most = std::max(most, plan.kernels[number].members.size());
      const ScheduledKernel& kernel = run.schedule(number);
      const auto predicted = predict_traffic(kernel.program, kernel.scopes);
      ASSERT_TRUE(predicted.ok()) << predicted.error().message;
      int64_t read = 0, written = 0;
      for (const simt::BufferTraffic& b : run.launches[k].report.traffic.buffers) {
        read += b.loads.distinct;
        written += b.stores.distinct;
      }
      // Warps left over do not load what only a store of the first copy takes.
      EXPECT_LE(read, predicted->requested_read) << print(kernel.program);
      if (same_warps) EXPECT_EQ(read, predicted->requested_read) << print(kernel.program);
      EXPECT_EQ(written, predicted->requested_written) << print(kernel.program);
    }
    EXPECT_EQ(most, members) << *print_level(*run.compilation, "plan");
    EXPECT_THAT(*print_level(*run.compilation, "tile-program"), ::testing::HasSubstr("pack {"));
    expect_no_spills(run);
  }
};

/// Rows, columns, and a transposed tensor; blocks of one, of eight and of sixteen warps.
TEST_F(GpuPacking, TemplatesOfDifferentShapes) {
  for (const char* sizes : {"33 50 7", "9 17 3", "40 64 12"}) {
    std::istringstream in(sizes);
    std::string m, n, k;
    in >> m >> n >> k;
    expect_packed(replaced(replaced(replaced(R"(
      (b: f32[$M,$N], d: f32[$M,$N], c: f32[$K,5,3]) {
        s = reduce b, axes={0}, combiner=sum : f32[$N]
        t = exp s : f32[$N]
        m = reduce d, axes={1}, combiner=max : f32[$M]
        x = transpose c, permutation={2,1,0} : f32[3,5,$K]
        y = abs x : f32[3,5,$K]
      } -> (t, m, y))",
                                             "$M", m),
                                    "$N", n),
                           "$K", k),
                  3, false);
  }
}

/// What kernels of a launch do alike is written once, and called for each with its own buffers.
TEST_F(GpuPacking, EqualKernelsAreOneFunction) {
  const EmulatedRun run = run_and_compare(R"(
      (x: f32[256], a: f32[40,256], b: f32[40,256], c: f32[40,256], d: f32[40,256]) {
        xb = broadcast x, dims={1} : f32[40,256]
        ax = mul a, xb : f32[40,256]
        as = reduce ax, axes={1}, combiner=sum : f32[40]
        bx = mul b, xb : f32[40,256]
        bs = reduce bx, axes={1}, combiner=sum : f32[40]
        cx = mul c, xb : f32[40,256]
        cs = reduce cx, axes={1}, combiner=sum : f32[40]
        dx = mul d, xb : f32[40,256]
        ds = reduce dx, axes={1}, combiner=sum : f32[40]
      } -> (as, bs, cs, ds))",
                                          *find_target("h100-sxm"), 1e-4);
  ASSERT_EQ(run.launches.size(), 1u);
  EXPECT_THAT(run.code(), ::testing::HasSubstr("WF_PART void"));
  EXPECT_THAT(run.code(), ::testing::Not(::testing::HasSubstr("_part1")));
  for (const KernelFunction* kernel : functions_of(*run.compilation)) {
    EXPECT_TRUE(emit_cuda(*kernel).shares);
    const CudaKernel apart = emit_cuda(*kernel, /*shares=*/false);
    EXPECT_FALSE(apart.shares);
    EXPECT_THAT(apart.text, ::testing::Not(::testing::HasSubstr("WF_PART")));
  }
  expect_no_spills(run);
}

/// Two towers of two layers: products beside products, each behind the one that it reads.
TEST_F(GpuPacking, TowersSideBySide) {
  for (const char* type : {"f32", "f16"}) {
    expect_packed(replaced(R"(
      (a: T[37,70], w: T[70,40], v: T[40,33], b: T[21,50], x: T[50,36], z: T[36,48]) {
        p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : T[37,40]
        e = tanh p : T[37,40]
        q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : T[37,33]
        c = dot_general b, x, lhs_contract={1}, rhs_contract={0} : T[21,36]
        d = abs c : T[21,36]
        f = dot_general d, z, lhs_contract={1}, rhs_contract={0} : T[21,48]
      } -> (q, f))",
                           "T[", type + std::string("[")),
                  2, true, type == std::string("f32") ? 1e-4 : 0.5);
  }
}

/// Each tower as the stages of a block, both in one launch.
TEST_F(GpuPacking, BlocksOfStagesSideBySide) {
  const EmulatedRun run = run_and_compare(R"(
    (a: f32[37,70], w: f32[70,40], v: f32[40,33], b: f32[21,50], x: f32[50,36], z: f32[36,48]) {
      p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[37,40]
      e = tanh p : f32[37,40]
      q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[37,33]
      c = dot_general b, x, lhs_contract={1}, rhs_contract={0} : f32[21,36]
      d = abs c : f32[21,36]
      f = dot_general d, z, lhs_contract={1}, rhs_contract={0} : f32[21,48]
    } -> (q, f))",
                                          *find_target("h100-sxm"), 1e-4);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_EQ(run.launches.size(), 1U) << *print_level(*run.compilation, "plan");
  expect_no_spills(run);
}

std::string scaled_rows(const char* x, const char* w, const char* y, int rows, int n) {
  return replaced(replaced(replaced(replaced(replaced(R"(
        m$Y = reduce $X, axes={1}, combiner=max : f32[$R]
        b$Y = broadcast m$Y, dims={0} : f32[$R,$N]
        d$Y = sub $X, b$Y : f32[$R,$N]
        v$Y = broadcast $W, dims={1} : f32[$R,$N]
        $Y = mul d$Y, v$Y : f32[$R,$N])",
                                                      "$X", x),
                                             "$W", w),
                                    "$Y", y),
                           "$R", std::to_string(rows)),
                  "$N", std::to_string(n));
}

/// Rows whose blocks would keep weights for several of them, had they more than one.
TEST_F(GpuPacking, RowsWithWeights) {
  for (const int rows : {301, 77, 130}) {
    const std::string n = std::to_string(rows);
    expect_packed("(a: f32[" + n + ",96], w: f32[96], b: f32[" + n + ",96], v: f32[96]) {" +
                      scaled_rows("a", "w", "y", rows, 96) + scaled_rows("b", "v", "z", rows, 96) +
                      "\n      } -> (y, z)",
                  2, true);
  }
}

/// One tensor in two shapes is a parameter for each.
TEST_F(GpuPacking, ATensorInTwoShapes) {
  expect_packed(R"(
    (b: f32[12,10]) {
      y = exp b : f32[12,10]
      c = reshape b : f32[4,3,10]
      s = reduce c, axes={1}, combiner=sum : f32[4,10]
      m = reduce b, axes={1}, combiner=max : f32[12]
    } -> (y, s, m))",
                2, false);
}

}  // namespace
}  // namespace weft::testing
