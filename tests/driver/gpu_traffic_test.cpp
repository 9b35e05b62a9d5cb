// What kernels ask of global memory on the emulator, beside what the plan predicts.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "lower/lower.h"
#include "tests/driver/emulated_graph.h"
#include "tests/graph_texts.h"
#include "tests/tile/program_cases.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/scope_analysis.h"

namespace weft::testing {
namespace {

/// Of one launch, without the counter of grid barriers; a byte counts once in a warp's request.
struct Measured {
  int64_t read = 0, written = 0, sector_bytes = 0;
  std::map<std::string, int64_t> read_of, written_to;  ///< by buffer
};

Measured measured(const simt::Report& report) {
  Measured out;
  for (const simt::BufferTraffic& b : report.traffic.buffers) {
    if (b.name == "barrier") continue;
    out.read_of[b.name] = b.loads.distinct;
    out.written_to[b.name] = b.stores.distinct;
    out.read += b.loads.distinct;
    out.written += b.stores.distinct;
    out.sector_bytes += (b.loads.sectors + b.stores.sectors) * 32;
  }
  return out;
}

/// Whether the launch asked for what the tile program says.
void expect_predicted(const TileProgram& program, const ScopeAnalysis& scopes,
                      const Measured& got) {
  const auto predicted = predict_traffic(program, scopes);
  ASSERT_TRUE(predicted.ok()) << predicted.error().message;
  EXPECT_TRUE(predicted->exact) << program.name;
  EXPECT_EQ(got.read, predicted->requested_read) << program.name;
  EXPECT_EQ(got.written, predicted->requested_written) << program.name;
}

class GpuTraffic : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_emulate()) GTEST_SKIP() << "no compiler to build CUDA text with";
  }
  Target h100_ = *find_target("h100-sxm");
};

/// One launch of a tile program on random inputs.
Measured launch(const TileProgram& program, const Target& target) {
  const auto kernel = lower_to_kernel(program, target);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  if (!kernel.ok()) return {};
  const auto inputs = tile_test::program_inputs(program);
  std::vector<std::vector<std::byte>> storage;
  for (const KernelBuffer& b : kernel->buffers) {
    if (b.kind == KernelBuffer::Kind::kShared) continue;
    storage.emplace_back(static_cast<size_t>(b.elements * byte_size(b.dtype)));
    const auto given = inputs.find(b.name);
    if (b.kind != KernelBuffer::Kind::kInput || given == inputs.end()) continue;
    std::copy_n(given->second.raw(), storage.back().size(), storage.back().begin());
  }
  std::vector<void*> addresses;
  for (auto& bytes : storage) addresses.push_back(bytes.data());
  Measured out;
  const auto launcher = emulate_kernels(
      {&*kernel}, "",
      {.observe = [&](const CudaKernel&, const simt::Report& r) { out = measured(r); }});
  EXPECT_TRUE(launcher.ok()) << launcher.error().message;
  if (!launcher.ok()) return {};
  const Status done = (*launcher)->launch(0, addresses, {});
  EXPECT_TRUE(done.ok()) << done.error().message;
  return out;
}

TEST_F(GpuTraffic, OfTheGpuProgramsIsPredicted) {
  for (const tile_test::ProgramCase& test : tile_test::program_cases()) {
    // What attention_rows asks for is compared by the evaluator alone (tests/tile).
    if (!test.name.ends_with("_gpu") || test.name == "attention_rows_gpu") continue;
    const TileProgram program = tile_test::small_program(test);
    const Measured got = launch(program, h100_);
    const auto scopes = derive_scopes(program);
    ASSERT_TRUE(scopes.ok()) << scopes.error().message;
    const auto predicted = predict_traffic(program, *scopes);
    ASSERT_TRUE(predicted.ok()) << predicted.error().message;
    if (test.name == "lstm_gpu") {
      // Where its condition fails, the carry's value goes from one of its two buffers to the other:
      // 12 values in 1 + 2 first and 2 + 1 last steps of the outer layers.
      const int64_t kept = 12 * 4 * 6;
      EXPECT_EQ(got.read, predicted->requested_read + kept);
      EXPECT_EQ(got.written, predicted->requested_written + kept);
    } else if (test.name == "conv_gpu") {
      // What does not change along the row is loaded once for both of its pieces.
      EXPECT_LE(got.read, predicted->requested_read);
      EXPECT_GE(got.read, predicted->requested_read * 97 / 100);
      EXPECT_EQ(got.written, predicted->requested_written);
    } else {
      expect_predicted(program, *scopes, got);
    }
  }
}

/// The row, or what is left of it without a function of its sum, over the root of its squares.
std::string norm(int64_t rows, int64_t n, bool centred) {
  const std::string mean = centred ? R"(
        s = reduce x, axes={1}, combiner=sum : f32[R]
        m = tanh s : f32[R]
        mb = broadcast m, dims={0} : f32[R,C]
        d = sub x, mb : f32[R,C])"
                                   : "\n        d = neg x : f32[R,C]";
  return replaced(replaced("(x: f32[R,C]) {" + mean + R"(
        q = mul d, d : f32[R,C]
        v = reduce q, axes={1}, combiner=sum : f32[R]
        r = sqrt v : f32[R]
        rb = broadcast r, dims={0} : f32[R,C]
        y = div d, rb : f32[R,C]
      } -> (y))",
                           "R", std::to_string(rows)),
                  "C", std::to_string(n));
}

/// Functions of an element of the kind that GELUs are made of.
std::string activation(int64_t rows, int64_t n) {
  return replaced(replaced(R"(
      (x: f32[R,C]) {
        a = erf x : f32[R,C]
        b = add a, x : f32[R,C]
        t = tanh b : f32[R,C]
        y = mul t, x : f32[R,C]
      } -> (y))",
                           "R", std::to_string(rows)),
                  "C", std::to_string(n));
}

/// What the plan keeps on chip is asked for once, in whole sectors.
TEST_F(GpuTraffic, OfWhatStaysOnChipIsItsSizeOnce) {
  Target patient = h100_;  // rows stay with one block
  patient.barrier_us = 1e6;
  patient.cluster_blocks = 0;
  for (const auto& [rows, n] : {std::pair{16, 1024}, {64, 256}, {3, 8192}}) {
    for (const std::string& text :
         {softmax(rows, n), norm(rows, n, true), norm(rows, n, false), activation(rows, n)}) {
      const EmulatedRun run = run_and_compare(text, patient, 1e-4);
      ASSERT_NE(run.compilation, nullptr);
      ASSERT_EQ(run.launches.size(), 1u) << text;
      const Measured got = measured(run.launches[0].report);
      expect_predicted(run.schedule(0).program, run.schedule(0).scopes, got);
      EXPECT_EQ(got.read + got.written, run.bytes()) << text;
      EXPECT_LE(got.sector_bytes, run.bytes() * 102 / 100) << text;
    }
  }
}

std::string scaled_norm(const char* type, int64_t rows, int64_t n, bool centred) {
  const std::string mean = centred ? R"(
        s = reduce x, axes={1}, combiner=sum : T[R]
        mu = mul s, part : T[R]
        mb = broadcast mu, dims={0} : T[R,C]
        d = sub x, mb : T[R,C])"
                                   : "\n        d = neg x : T[R,C]";
  const std::string text = "(x: T[R,C], w: T[C], b: T[C]) {\n        n = constant " +
                           std::to_string(1.0 / static_cast<double>(n)) +
                           " : T[]\n        part = broadcast n, dims={} : T[R]" + mean + R"(
        q = mul d, d : T[R,C]
        v = reduce q, axes={1}, combiner=sum : T[R]
        va = mul v, part : T[R]
        r = rsqrt va : T[R]
        rb = broadcast r, dims={0} : T[R,C]
        t = mul d, rb : T[R,C]
        wb = broadcast w, dims={1} : T[R,C]
        u = mul t, wb : T[R,C]
        bb = broadcast b, dims={1} : T[R,C]
        y = add u, bb : T[R,C]
      } -> (y))";
  return replaced(
      replaced(replaced(text, "T[", std::string(type) + "["), "R", std::to_string(rows)), "C",
      std::to_string(n));
}

std::string biased_activation(const char* type, int64_t rows, int64_t n) {
  return replaced(replaced(replaced(R"(
      (x: T[R,C], b: T[C]) {
        bb = broadcast b, dims={1} : T[R,C]
        a = add x, bb : T[R,C]
        e = erf a : T[R,C]
        t = tanh e : T[R,C]
        y = mul t, a : T[R,C]
      } -> (y))",
                                    "T[", std::string(type) + "["),
                           "R", std::to_string(rows)),
                  "C", std::to_string(n));
}

/// What rows have in common is asked for by each block once, and blocks are few. In whole sectors
/// where rows begin at them.
TEST_F(GpuTraffic, OfWeightsThatRowsShare) {
  Target small = h100_;
  small.sm_count = 2;
  small.barrier_us = 1e6;
  for (const char* type : {"f32", "f16"}) {
    const double tolerance = type[1] == '1' ? 4e-2 : 1e-4;
    for (const auto& [rows, n] : {std::pair{603, 272}, {1407, 77}, {311, 1040}}) {
      for (const std::string& text :
           {scaled_norm(type, rows, n, true), scaled_norm(type, rows, n, false),
            biased_activation(type, rows, n)}) {
        const EmulatedRun run = run_and_compare(text, small, tolerance);
        ASSERT_NE(run.compilation, nullptr);
        ASSERT_EQ(run.launches.size(), 1u) << text;
        const Measured got = measured(run.launches[0].report);
        expect_predicted(run.schedule(0).program, run.schedule(0).scopes, got);
        EXPECT_LE(got.read + got.written, run.bytes() * 102 / 100) << text;
        if (n % 16 == 0) EXPECT_LE(got.sector_bytes, run.bytes() * 102 / 100) << text;
        if (rows == 603) expect_no_spills(run);
      }
    }
  }
}

/// On whole devices, which have more blocks than weights can be asked for by: clusters of them do.
TEST_F(GpuTraffic, OfWeightsOnDevicesOfManyBlocks) {
  for (const auto& [name, type, rows, n] :
       {std::tuple{"h200", "f16", 4096, 1024}, {"h200", "f32", 1700, 1023}}) {
    const EmulatedRun run = run_and_compare(scaled_norm(type, rows, n, true), *find_target(name),
                                            type[1] == '1' ? 4e-2 : 1e-4);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.launches.size(), 1u);
    EXPECT_GT(run.launches[0].kernel.cluster, 1);
    const Measured got = measured(run.launches[0].report);
    expect_predicted(run.schedule(0).program, run.schedule(0).scopes, got);
    EXPECT_LE(got.read + got.written, run.bytes() * 102 / 100) << type << rows << "x" << n;
    if (n % 16 == 0) EXPECT_LE(got.sector_bytes, run.bytes() * 102 / 100);
    expect_no_spills(run);
  }
}

/// Blocks go on from one value of the axes that a weight depends on to the next.
TEST_F(GpuTraffic, OfWeightsThatSomeAxesShare) {
  Target small = h100_;
  small.sm_count = 2;
  for (const char* n : {"40", "96", "200"}) {
    const EmulatedRun run = run_and_compare(replaced(R"(
      (x: f32[1501,3,N], w: f32[3,N]) {
        s = reduce x, axes={2}, combiner=max : f32[1501,3]
        sb = broadcast s, dims={0,1} : f32[1501,3,N]
        d = sub x, sb : f32[1501,3,N]
        wb = broadcast w, dims={1,2} : f32[1501,3,N]
        y = mul d, wb : f32[1501,3,N]
      } -> (y))",
                                                     "N", n),
                                            small, 1e-5);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.launches.size(), 1u);
    const Measured got = measured(run.launches[0].report);
    expect_predicted(run.schedule(0).program, run.schedule(0).scopes, got);
    EXPECT_LE(got.read_of.at("w"), 8 * 3 * std::stoi(n) * 4) << n;
  }
}

/// Of the module in one nest the map survives the barrier of the grid: read once, written once.
TEST_F(GpuTraffic, OfSqueezeAndExciteReadsItsMapOnce) {
  for (const tile_test::ProgramCase& test : tile_test::program_cases()) {
    if (test.name != "squeeze_gpu") continue;
    tile_test::ProgramCase whole = test;
    whole.smaller = {{"1152", "80"}, {"48", "7"}, {"72", "5"}};
    const Measured got = launch(tile_test::small_program(whole), h100_);
    EXPECT_EQ(got.read_of.at("x"), 49 * 80 * 4);
    EXPECT_EQ(got.written_to.at("y"), 49 * 80 * 4);
    EXPECT_EQ(got.written_to.at("s"), 80 * 4);
  }
}

/// Members of a launch read what another of it stores, each by a view of its own. The estimate has
/// the tensor once. All sizes are whole sectors.
TEST_F(GpuTraffic, OfWhatMembersOfALaunchReadAgainIsItsSizeOnce) {
  const char* const graph = R"(
      (a: f32[24,56], w: f32[56,40]) {
        p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[24,40]
        r = reshape p : f32[8,3,40]
        s = reduce r, axes={0,1}, combiner=sum : f32[40]
        b = broadcast s, dims={1} : f32[24,40]
        d = sub p, b : f32[24,40]
        z = reshape d : f32[40,24]
        m = reduce z, axes={1}, combiner=max : f32[40]
        n = broadcast m, dims={0} : f32[40,24]
        y = sub z, n : f32[40,24]
      } -> (y))";
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,grid";
  const EmulatedRun run = run_and_compare(graph, *find_target("a100-40gb"), 1e-4, false, options);
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(run.launches.size(), 1U);
  int64_t read = 0, written = 0;
  for (const simt::BufferTraffic& b : run.launches[0].report.traffic.buffers) {
    if (b.name == "barrier") continue;
    read += b.loads.unique_bytes;
    written += b.stores.unique_bytes;
  }
  const ScheduledKernel& kernel = run.schedule(0);
  std::map<TileSymbolId, int> views;
  for (const TileSymbol& symbol : kernel.program.symbols) ++views[symbol.view_of];
  views.erase(-1);
  EXPECT_TRUE(std::ranges::any_of(views, [](const auto& v) { return v.second > 1; }));
  EXPECT_EQ(kernel.estimate.bytes_read, read);
  EXPECT_EQ(kernel.estimate.bytes_written, written);
}

TEST_F(GpuTraffic, OfEveryTemplateIsPredicted) {
  const auto product = [](const char* type, const char* m, const char* n, const char* k) {
    return replaced(replaced(replaced(replaced(R"(
      (a: TT[M,K], b: TT[K,N]) {
        y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : TT[M,N]
      } -> (y))",
                                               "TT", type),
                                      "M", m),
                             "N", n),
                    "K", k);
  };
  const std::string graphs[] = {softmax(9, 33),
                                softmax(5, 1000),
                                softmax(1, 70000),
                                norm(7, 515, true),
                                activation(13, 77),
                                product("f32", "70", "72", "200"),
                                product("f32", "37", "45", "21"),
                                product("f16", "70", "72", "200"),
                                product("f16", "37", "45", "121"),
                                R"(
      (x: f32[300,70]) {
        s = reduce x, axes={0}, combiner=sum : f32[70]
        y = exp s : f32[70]
      } -> (y))"};
  for (const std::string& text : graphs) {
    const EmulatedRun run = run_and_compare(text, h100_, 2e-2);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.launches.size(), run.compilation->plan.kernels.size());
    for (size_t k = 0; k < run.launches.size(); ++k) {
      expect_predicted(run.schedule(k).program, run.schedule(k).scopes,
                       measured(run.launches[k].report));
    }
  }
}

}  // namespace
}  // namespace weft::testing
