// Rows reduced along themselves and across each other in one kernel that reads them once.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/driver/emulated_graph.h"
#include "tile/analysis/predict_traffic.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;

std::string sized(const char* text, int64_t rows, int64_t n) {
  return replaced(replaced(text, "R", std::to_string(rows)), "C", std::to_string(n));
}

/// Row and column sums of one producer.
constexpr const char* kSums = R"(
    (x: f32[R,C]) {
      t = tanh x : f32[R,C]
      r = reduce t, axes={1}, combiner=sum : f32[R]
      q = reduce t, axes={0}, combiner=sum : f32[C]
    } -> (r, q))";

/// The gradients of a normalised layer: of its input row by row, of scale and shift across rows.
constexpr const char* kNormGradients = R"(
    (x: f32[R,C], dy: f32[R,C], w: f32[C]) {
      k = constant 0.01 : f32[]
      kb = broadcast k, dims={} : f32[R]
      s = reduce x, axes={1}, combiner=sum : f32[R]
      m = mul s, kb : f32[R]
      mb = broadcast m, dims={0} : f32[R,C]
      d = sub x, mb : f32[R,C]
      q = mul d, d : f32[R,C]
      v = reduce q, axes={1}, combiner=sum : f32[R]
      g = rsqrt v : f32[R]
      gb = broadcast g, dims={0} : f32[R,C]
      h = mul d, gb : f32[R,C]
      p = mul dy, h : f32[R,C]
      wb = broadcast w, dims={1} : f32[R,C]
      u = mul p, wb : f32[R,C]
      a = reduce u, axes={1}, combiner=sum : f32[R]
      ab = broadcast a, dims={0} : f32[R,C]
      f = mul h, ab : f32[R,C]
      dx = sub dy, f : f32[R,C]
      dw = reduce p, axes={0}, combiner=sum : f32[C]
      e = neg dw : f32[C]
      db = reduce dy, axes={0}, combiner=sum : f32[C]
    } -> (dx, e, db))";

class GpuTwoWays : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_emulate()) GTEST_SKIP() << "no compiler to build CUDA text with";
    small_.sm_count = 4;
  }
  Target small_ = *find_target("h100-sxm");
};

TEST_F(GpuTwoWays, SumsOfRowsAndColumnsReadTheInputOnce) {
  for (const auto& [rows, n] : {std::pair{257, 129}, {33, 1000}, {67, 4099}}) {
    const EmulatedRun run = run_and_compare(sized(kSums, rows, n), small_, 1e-4);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.compilation->kernels.size(), 1u) << rows << "x" << n;
    EXPECT_EQ(run.schedule(0).schedule_template, "rows and columns");
    EXPECT_THAT(run.code(), HasSubstr("wf_sync_grid"));
    // As predicted: the input once, beside it what the blocks leave and read of their parts.
    const ScheduledKernel& schedule = run.schedule(0);
    const auto predicted = predict_traffic(schedule.program, schedule.scopes);
    ASSERT_TRUE(predicted.ok()) << predicted.error().message;
    int64_t read = 0, written = 0;
    for (const simt::BufferTraffic& b : run.launches[0].report.traffic.buffers) {
      if (b.name == "barrier") continue;
      read += b.loads.distinct;
      written += b.stores.distinct;
      if (b.name == "x") EXPECT_EQ(b.loads.distinct, rows * n * 4);
    }
    EXPECT_EQ(read, predicted->requested_read);
    EXPECT_EQ(written, predicted->requested_written);
    expect_no_spills(run);
  }
}

TEST_F(GpuTwoWays, GradientsOfANormalisedLayerAreOneKernel) {
  for (const auto& [rows, n] : {std::pair{65, 100}, {31, 771}, {40, 3001}}) {
    const EmulatedRun run = run_and_compare(sized(kNormGradients, rows, n), small_, 1e-3);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.compilation->kernels.size(), 1u) << rows << "x" << n;
    EXPECT_EQ(run.schedule(0).schedule_template, "rows and columns");
    expect_no_spills(run);
  }
}

/// Reductions of an input that hand each other nothing.
TEST_F(GpuTwoWays, MeetInTheInputThatTheyRead) {
  const EmulatedRun run = run_and_compare(sized(R"(
    (x: f32[R,C]) {
      r = reduce x, axes={1}, combiner=max : f32[R]
      q = reduce x, axes={0}, combiner=min : f32[C]
    } -> (r, q))",
                                                96, 130),
                                          small_, 0);
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(run.compilation->kernels.size(), 1u);
  EXPECT_EQ(run.schedule(0).schedule_template, "rows and columns");
}

std::vector<std::string> templates_of(const std::string& graph, const Target& target) {
  auto parsed = parse_graph(graph);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  CompileOptions options;
  options.device = target;
  auto compiled = compile_graph(*parsed, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  std::vector<std::string> out;
  for (const PlannedKernel& kernel : (*compiled)->plan.kernels) {
    out.push_back(kernel.schedule.schedule_template);
  }
  return out;
}

/// What needs all rows before a row is left, rows that no block holds, and devices without a
/// barrier of the grid take kernels of their own.
TEST_F(GpuTwoWays, OthersStayApart) {
  using ::testing::Contains;
  using ::testing::Not;
  const auto both = std::string("rows and columns");
  EXPECT_THAT(templates_of(sized(kSums, 257, 129), small_), Contains(both));
  EXPECT_THAT(templates_of(sized(kSums, 33, 40000), small_), Not(Contains(both)));
  Target alone = small_;
  alone.grid_barriers = false;
  EXPECT_THAT(templates_of(sized(kSums, 257, 129), alone), Not(Contains(both)));
  const char* centred = R"(
    (x: f32[R,C]) {
      t = tanh x : f32[R,C]
      q = reduce t, axes={0}, combiner=sum : f32[C]
      qb = broadcast q, dims={1} : f32[R,C]
      d = sub t, qb : f32[R,C]
      r = reduce d, axes={1}, combiner=sum : f32[R]
    } -> (r))";
  EXPECT_THAT(templates_of(sized(centred, 257, 129), small_), Not(Contains(both)));
}

}  // namespace
}  // namespace weft::testing
