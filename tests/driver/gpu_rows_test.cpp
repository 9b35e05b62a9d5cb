// Reductions of rows and columns at every scope that the planner has for them: a few lanes, a warp,
// a block, several blocks; kept in registers or swept over.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/driver/emulated_graph.h"
#include "tests/graph_texts.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;

std::string reduction(const char* type, const std::string& shape, const std::string& left, int axis,
                      const char* combiner) {
  return fmt::format(
      "(x: {0}[{1}]) {{\n  s = reduce x, axes={{{3}}}, combiner={4} : {0}[{2}]\n"
      "  y = add s, s : {0}[{2}]\n}} -> (y)",
      type, shape, left, axis, combiner);
}

std::string arg(const char* combiner, int64_t rows, int64_t n, bool last) {
  return fmt::format(
      "(x: f32[{0},{1}]) {{\n  a = round_even x : f32[{0},{1}]\n"
      "  y = arg_reduce a, axis=1, combiner={2}{3} : i64[{0}]\n}} -> (y)",
      rows, n, combiner, last ? ", last_on_ties=true" : "");
}

int64_t occurrences(const std::string& text, const std::string& what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

class GpuRows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_emulate()) GTEST_SKIP() << "no compiler to build CUDA text with";
    clustered_ = small_;
    clustered_.grid_barriers = false;
    small_.cluster_blocks = 0;
    eager_ = small_;
    eager_.barrier_us = 0;
    patient_ = small_;
    patient_.barrier_us = 1e6;
  }

  Target h100_ = *find_target("h100-sxm");
  Target small_ = with_sms(h100_, 8);
  Target eager_ = h100_;      ///< a barrier of the grid costs nothing
  Target patient_ = h100_;    ///< it costs everything
  Target clustered_ = h100_;  ///< blocks meet in clusters or not at all
};

TEST_F(GpuRows, StayInRegistersOnLanesWarpsAndBlocks) {
  for (const auto& [rows, n] : {std::pair{37, 5}, {9, 32}, {5, 100}, {3, 1000}, {2, 9001}}) {
    const EmulatedRun run = run_and_compare(softmax(rows, n), patient_);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.compilation->kernels.size(), 1u);
    EXPECT_EQ(run.schedule(0).schedule_template, "rows in registers");
    expect_no_spills(run);
    // On chip from the load to the store.
    EXPECT_LE(run.sector_bytes(), run.bytes() * 102 / 100 + 2048) << rows << "x" << n;
  }
}

TEST_F(GpuRows, LongRowsAreSharedByBlocks) {
  for (const auto& [rows, n] : {std::pair{2, 9001}, {1, 20011}, {3, 4096}}) {
    const EmulatedRun run = run_and_compare(softmax(rows, n), eager_);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.compilation->kernels.size(), 1u);
    EXPECT_EQ(run.schedule(0).schedule_template, "rows in registers over blocks");
    const CudaKernel& kernel = run.launches[0].kernel;
    EXPECT_TRUE(kernel.grid_barrier);
    EXPECT_LE(kernel.blocks, int64_t{kernel.blocks_per_sm} * eager_.sm_count);
    EXPECT_THAT(run.code(), HasSubstr("wf_sync_grid"));
    expect_no_spills(run);
  }
}

std::string layer_norm(int64_t rows, int64_t n) {
  return replaced(replaced(replaced(R"(
      (x: f32[R,C], w: f32[C]) {
        k = constant K : f32[]
        kb = broadcast k, dims={} : f32[R]
        s = reduce x, axes={1}, combiner=sum : f32[R]
        m = mul s, kb : f32[R]
        mb = broadcast m, dims={0} : f32[R,C]
        d = sub x, mb : f32[R,C]
        q = mul d, d : f32[R,C]
        v = reduce q, axes={1}, combiner=sum : f32[R]
        t = mul v, kb : f32[R]
        r = sqrt t : f32[R]
        rb = broadcast r, dims={0} : f32[R,C]
        z = div d, rb : f32[R,C]
        wb = broadcast w, dims={1} : f32[R,C]
        y = mul z, wb : f32[R,C]
      } -> (y))",
                                    "K", fmt::format("{}", 1.0 / static_cast<double>(n))),
                           "R", std::to_string(rows)),
                  "C", std::to_string(n));
}

/// Few rows, or rows of which a block's registers hold a part.
TEST_F(GpuRows, LongRowsAreSharedByBlocksOfACluster) {
  for (const auto& [rows, n] : {std::pair{2, 20011}, {3, 30011}, {1, 65537}}) {
    for (const std::string& graph : {softmax(rows, n), layer_norm(rows, n)}) {
      const EmulatedRun run = run_and_compare(graph, clustered_, 1e-4);
      ASSERT_NE(run.compilation, nullptr);
      ASSERT_EQ(run.compilation->kernels.size(), 1u);
      EXPECT_EQ(run.schedule(0).schedule_template, "rows in registers over a cluster") << graph;
      const CudaKernel& kernel = run.launches[0].kernel;
      EXPECT_FALSE(kernel.grid_barrier);
      EXPECT_GE(kernel.cluster, 2);
      EXPECT_EQ(kernel.blocks, rows * kernel.cluster);
      EXPECT_THAT(run.code(), HasSubstr("wf_cluster_map"));
      // On chip from the load to the store; weights once for each row.
      const int64_t weights = run.inputs.size() > 1 ? (rows - 1) * n * 4 : 0;
      EXPECT_LE(run.sector_bytes(), (run.bytes() + weights) * 102 / 100) << rows << "x" << n;
      expect_no_spills(run);
    }
  }
}

TEST_F(GpuRows, ClustersCombineSumsAndPositionsAndSweep) {
  for (const char* shape : {"2,30001", "5,40097", "1,100003"}) {
    const std::string text = shape;
    const EmulatedRun run = run_and_compare(
        reduction("f32", shape, text.substr(0, text.find(',')), 1, "prod"), clustered_);
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_THAT(run.schedule(0).schedule_template, HasSubstr("over a cluster"));
    expect_no_spills(run);
  }
  EXPECT_THAT(run_and_compare(arg("arg_max", 2, 50003, true), clustered_).code(),
              HasSubstr("wf_sync_cluster"));
  run_and_compare(reduction("f16", "3,5000,7", "3,7", 1, "min"), clustered_, 1e-3);
  // Beyond the registers of eight blocks.
  const EmulatedRun run = run_and_compare(softmax(1, 700001), clustered_);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_EQ(run.schedule(0).schedule_template, "rows in sweeps over a cluster");
  expect_no_spills(run);
}

TEST_F(GpuRows, AreSweptWhereRegistersDoNotHoldThem) {
  for (const int64_t n : {70001, 65537, 131072}) {
    const EmulatedRun run = run_and_compare(softmax(1, n), patient_);
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_EQ(run.schedule(0).schedule_template, "rows in sweeps");
    expect_no_spills(run);
  }
  for (const int64_t n : {1000003, 700001}) {
    const EmulatedRun run = run_and_compare(softmax(1, n), eager_);
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_EQ(run.schedule(0).schedule_template, "rows in sweeps over blocks");
    expect_no_spills(run);
  }
}

TEST_F(GpuRows, SumsOfSplitRowsAreCombinedOnce) {
  for (const char* shape : {"2,30001", "5,20011", "1,100003"}) {
    const std::string text = shape;
    const EmulatedRun run =
        run_and_compare(reduction("f32", shape, text.substr(0, text.find(',')), 1, "prod"), eager_);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.compilation->kernels.size(), 1u);
    EXPECT_THAT(run.schedule(0).schedule_template, HasSubstr("over blocks"));
    expect_no_spills(run);
  }
}

TEST_F(GpuRows, ColumnsAreReadAlongMemory) {
  for (const char* shape : {"7,70", "300,70", "1001,130", "2000,33"}) {
    const std::string text = shape;
    for (const Target& target : {patient_, eager_}) {
      const EmulatedRun run = run_and_compare(
          reduction("f32", shape, text.substr(text.find(',') + 1), 0, "max"), target);
      ASSERT_NE(run.compilation, nullptr);
      EXPECT_LE(run.sector_bytes(), run.bytes() * 5 / 4) << shape;
      expect_no_spills(run);
    }
  }
}

TEST_F(GpuRows, MiddleAxesAndSmallTypes) {
  for (const char* type : {"f16", "i32", "f64"}) {
    run_and_compare(reduction(type, "3,50,20", "3,20", 1, "max"), eager_, 1e-3);
    run_and_compare(reduction(type, "3,5000,7", "3,7", 1, "min"), eager_, 1e-3);
    run_and_compare(softmax(3, 1003, "f16"), eager_, 2e-3);
  }
}

TEST_F(GpuRows, PositionsAreFoundInOnePass) {
  for (const bool last : {false, true}) {
    for (const auto& [rows, n] : {std::pair{5, 33}, {2, 5003}, {1, 70001}}) {
      for (const Target& target : {patient_, eager_}) {
        const EmulatedRun run = run_and_compare(arg("arg_max", rows, n, last), target);
        ASSERT_NE(run.compilation, nullptr);
        EXPECT_LE(run.sector_bytes(), run.bytes() * 102 / 100 + 2048) << rows << "x" << n;
      }
      run_and_compare(arg("arg_min", rows, n, last), eager_);
    }
  }
}

/// Rows about 10000 with deviations about 1: their sum, second moment and normalised elements.
std::string moments(int64_t rows, int64_t n, bool goes_on) {
  const std::string scaled = goes_on ? R"(
        va = mul v, part : f32[R]
        r = rsqrt va : f32[R]
        rb = broadcast r, dims={0} : f32[R,C]
        y = mul d, rb : f32[R,C])"
                                     : "";
  return replaced(
      replaced(replaced(R"(
      (z: f32[R,C]) {
        c = constant 10000 : f32[]
        cb = broadcast c, dims={} : f32[R,C]
        x = add z, cb : f32[R,C]
        n = constant C : f32[]
        nb = broadcast n, dims={} : f32[R]
        s = reduce x, axes={1}, combiner=sum : f32[R]
        mu = div s, nb : f32[R]
        mb = broadcast mu, dims={0} : f32[R,C]
        d = sub x, mb : f32[R,C]
        q = mul d, d : f32[R,C]
        v = reduce q, axes={1}, combiner=sum : f32[R]
        one = constant 1 : f32[]
        oneb = broadcast one, dims={} : f32[R]
        part = div oneb, nb : f32[R])" +
                            scaled + (goes_on ? "\n      } -> (s, v, y)" : "\n      } -> (s, v)"),
                        "R", std::to_string(rows)),
               "C", std::to_string(n)),
      "constant C", "constant " + std::to_string(n));
}

/// Sum and second moment of a row in float64.
std::pair<double, double> moments_of(const HostTensor& z, int64_t row, int64_t n) {
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i) {
    x.push_back(static_cast<float>(z.at_double(row * n + i)) + 10000.0F);
  }
  double sum = 0, second = 0;
  for (const double e : x) sum += e;
  for (const double e : x)
    second += (e - sum / static_cast<double>(n)) * (e - sum / static_cast<double>(n));
  return {sum, second};
}

/// One sweep makes both, as exactly as two would, and a second one normalises; split rows wait for
/// each other once.
TEST_F(GpuRows, MeanAndVarianceTakeOneSweep) {
  for (const auto& [rows, n] : {std::pair{1, 70001}, {2, 66003}}) {
    for (const bool goes_on : {true, false}) {
      for (const bool split : {false, true}) {
        const EmulatedRun run =
            run_and_compare(moments(rows, n, goes_on), split ? eager_ : patient_, 1e-3);
        ASSERT_NE(run.compilation, nullptr);
        ASSERT_EQ(run.launches.size(), 1u);
        for (int64_t r = 0; r < rows; ++r) {
          const auto [sum, second] = moments_of(run.inputs[0], r, n);
          EXPECT_NEAR(run.outputs[0].at_double(r), sum, sum * 1e-6);
          EXPECT_NEAR(run.outputs[1].at_double(r), second, second * 1e-5);
        }
        const int64_t passes = !goes_on ? 1 : split ? 2 : 3;
        EXPECT_LE(run.sector_bytes(), rows * n * 4 * passes * 102 / 100 + (256 << 10));
        if (split) EXPECT_EQ(occurrences(run.code(), "wf_sync_grid("), 1) << run.code();
        expect_no_spills(run);
      }
    }
  }
}

/// The squares of a row's deviations have a mean and a second moment of their own: a sum that is
/// the second of one pair is not the first of another.
TEST_F(GpuRows, MomentsOfSquaredDeviations) {
  const std::string text = R"((x: f32[2,30011]) {
  n = constant 30011 : f32[]
  nb = broadcast n, dims={} : f32[2]
  s = reduce x, axes={1}, combiner=sum : f32[2]
  m = div s, nb : f32[2]
  mb = broadcast m, dims={0} : f32[2,30011]
  d = sub x, mb : f32[2,30011]
  q = mul d, d : f32[2,30011]
  v = reduce q, axes={1}, combiner=sum : f32[2]
  w = div v, nb : f32[2]
  wb = broadcast w, dims={0} : f32[2,30011]
  e = sub q, wb : f32[2,30011]
  r = mul e, e : f32[2,30011]
  u = reduce r, axes={1}, combiner=sum : f32[2]
} -> (s, v, u))";
  for (const Target& target : {patient_, eager_, h100_}) run_and_compare(text, target, 1e-3);
}

/// What is not finite makes the sum what it is without a shift.
TEST_F(GpuRows, MomentsOfWhatIsNotFinite) {
  const std::string text = moments(2, 70001, false);
  run_and_compare(replaced(text, "x = add z, cb", "x = log z"), patient_);
  run_and_compare(replaced(text, "x = add z, cb", "zc = mul z, cb : f32[2,70001]\n x = exp zc"),
                  patient_);
}

/// What lies across the vectors passes through tiles in shared memory: whole sectors on both sides,
/// and no two lanes in one bank.
TEST_F(GpuRows, TransposesThroughSharedMemory) {
  for (const char* type : {"f32", "f16", "f64", "i8"}) {
    for (const auto& [rows, n] : {std::pair{64, 96}, {100, 76}, {61, 131}}) {
      const EmulatedRun run =
          run_and_compare(fmt::format("(x: {0}[3,{1},{2}], z: {0}[3,{2},{1}]) {{\n"
                                      "  t = transpose x, permutation={{0,2,1}} : {0}[3,{2},{1}]\n"
                                      "  y = add t, z : {0}[3,{2},{1}]\n}} -> (y)",
                                      type, rows, n),
                          h100_, 1e-2);
      ASSERT_NE(run.compilation, nullptr);
      ASSERT_EQ(run.launches.size(), 1u);
      EXPECT_EQ(run.schedule(0).schedule_template, "tiles across");
      const simt::SharedTraffic& shared = run.launches[0].report.traffic.shared;
      EXPECT_EQ(shared.wavefronts, shared.ideal_wavefronts) << type << rows << "x" << n;
      // Four short rows of a request may each share sectors with their neighbours.
      const int64_t percent = rows == 64 ? 102 : 200;
      EXPECT_LE(run.sector_bytes(), run.bytes() * percent / 100) << type << rows << "x" << n;
      if (rows == 100) expect_no_spills(run);
    }
  }
}

/// Rows and products that blocks would share stay apart where the target has no barriers of the
/// grid.
TEST_F(GpuRows, NoBarrierOfTheGridWhereTheTargetHasNone) {
  for (const char* graph :
       {"(x: f32[4,30000]) {\n  m = reduce x, axes={1}, combiner=max : f32[4]\n"
        "  b = broadcast m, dims={0} : f32[4,30000]\n  y = sub x, b : f32[4,30000]\n} -> (y)",
        "(a: f16[32,4096], b: f16[4096,32]) {\n  y = dot_general a, b, lhs_batch={}, rhs_batch={}, "
        "lhs_contract={1}, rhs_contract={0} : f16[32,32]\n} -> (y)"}) {
    Target target = h100_;
    target.cluster_blocks = 0;
    const auto barriers = [&] {
      auto parsed = parse_graph(graph);
      EXPECT_TRUE(parsed.ok()) << parsed.error().message;
      CompileOptions options;
      options.device = target;
      auto compiled = compile_graph(*parsed, options);
      EXPECT_TRUE(compiled.ok()) << compiled.error().message;
      return std::ranges::count_if((*compiled)->kernels, has_grid_barrier,
                                   &CompiledKernel::function);
    };
    EXPECT_EQ(barriers(), 1) << graph;
    target.grid_barriers = false;
    EXPECT_EQ(barriers(), 0) << graph;
  }
}

/// Many reductions one after another share what little shared memory a block has: it is no more
/// than for two of them, and layouts with more warps give way.
TEST_F(GpuRows, LongChainsFitSmallSharedMemory) {
  for (const char* shape : {"1,301,70", "2,4001,32", "3,7,33"}) {
    for (const int64_t bytes : {2048, 8192, 49152}) {
      std::string text = "(x0: f32[S]) {\n";
      for (int i = 0; i < 6; ++i) {
        text += fmt::format(
            "  m{0} = reduce x{0}, axes={{1}}, combiner=max : f32[R]\n"
            "  b{0} = broadcast m{0}, dims={{0,2}} : f32[S]\n  d{0} = sub x{0}, b{0} : f32[S]\n"
            "  x{1} = tanh d{0} : f32[S]\n",
            i, i + 1);
      }
      const std::string s = shape, left = s.substr(0, 2) + s.substr(s.rfind(',') + 1);
      Target little = patient_;
      little.shared_bytes_per_block = little.shared_bytes_per_sm = bytes;
      const EmulatedRun run =
          run_and_compare(replaced(replaced(text + "} -> (x6)", "S", s), "R", left), little);
      ASSERT_NE(run.compilation, nullptr);
      for (const Launch& launch : run.launches) {
        EXPECT_LE(launch.kernel.shared_bytes, bytes) << shape;
      }
    }
  }
}

/// A softmax of one map that weighs the columns of another: what lacks some of the kernel's axes is
/// held by all of their threads.
TEST_F(GpuRows, WeightsThatLackAnAxis) {
  for (const char* n : {"5", "40", "3000"}) {
    for (const Target& target : {patient_, eager_}) {
      run_and_compare(replaced(R"(
      (w: f32[3,N], v: f32[3,N,12]) {
        m = reduce w, axes={1}, combiner=max : f32[3]
        mb = broadcast m, dims={0} : f32[3,N]
        d = sub w, mb : f32[3,N]
        e = exp d : f32[3,N]
        s = reduce e, axes={1}, combiner=sum : f32[3]
        sb = broadcast s, dims={0} : f32[3,N]
        p = div e, sb : f32[3,N]
        pb = broadcast p, dims={0,1} : f32[3,N,12]
        q = mul v, pb : f32[3,N,12]
        y = reduce q, axes={1}, combiner=sum : f32[3,12]
      } -> (y))",
                               "N", n),
                      target, 1e-4);
    }
  }
}

/// Rows of a sum that are normalised with weights: 16 warps take two rows at a time, so that a
/// block keeps three weights of 16 KB in shared memory.
TEST_F(GpuRows, KeepWeightsInAllTheSharedMemoryOfABlock) {
  Target few = with_sms(h100_, 2);
  few.grid_barriers = false;
  few.cluster_blocks = 0;
  const EmulatedRun run = run_and_compare(R"(
      (x: f32[64,4096], a: f32[4096], g: f32[4096], b: f32[4096]) {
        ab = broadcast a, dims={1} : f32[64,4096]
        h = add x, ab : f32[64,4096]
        s = reduce h, axes={1}, combiner=max : f32[64]
        sb = broadcast s, dims={0} : f32[64,4096]
        d = sub h, sb : f32[64,4096]
        gb = broadcast g, dims={1} : f32[64,4096]
        m = mul d, gb : f32[64,4096]
        bb = broadcast b, dims={1} : f32[64,4096]
        y = add m, bb : f32[64,4096]
      } -> (y))",
                                          few);
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(run.launches.size(), 1u);
  EXPECT_GT(run.launches[0].kernel.shared_bytes, 48 << 10);
}

}  // namespace
}  // namespace weft::testing
