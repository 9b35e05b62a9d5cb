// The kernels that MCFuser's chains (SC'24, tables II and III) get on three GPUs, at small odd
// sizes on the emulator: tails of rows, steps and what is made. One of the three sizes for each
// chain; with WEFT_ALL_SHAPES all of them, and a row of a table for each (bench/chain_shapes).

#include <cstdio>
#include <cstdlib>

#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

struct ChainCase {
  const char* name;
  int64_t b, m, n, k, h;
  bool is_attention;
  bool is_float32 = false;
};

constexpr ChainCase kCases[] = {
    {"G1", 1, 512, 256, 64, 64, false},
    {"G2", 1, 512, 256, 64, 128, false},
    {"G3", 1, 512, 256, 64, 256, false},
    {"G4", 1, 512, 512, 256, 256, false},
    {"G5", 1, 512, 512, 512, 256, false},
    {"G6", 1, 512, 512, 1024, 256, false},
    {"G7", 1, 512, 512, 128, 128, false},
    {"G8", 1, 1024, 512, 128, 128, false},
    {"G9", 1, 2048, 512, 128, 128, false},
    {"G10", 1, 1024, 1024, 128, 128, false},
    {"G11", 4, 1024, 1024, 128, 128, false},
    {"G12", 8, 1024, 1024, 128, 128, false},
    {"S1", 8, 512, 512, 64, 64, true},
    {"S2", 12, 512, 512, 64, 64, true},
    {"S3", 16, 512, 512, 64, 64, true},
    {"S4", 12, 256, 256, 64, 64, true},
    {"S5", 16, 256, 256, 64, 64, true},
    {"S6", 16, 256, 256, 80, 80, true},
    {"S7", 1, 512, 256, 64, 64, true},
    {"S8", 1, 768, 384, 64, 64, true},
    {"S9", 1, 1024, 512, 64, 64, true},
    // Those of float32 that are one kernel on all three.
    {"G1f32", 1, 512, 256, 64, 64, false, true},
    {"G2f32", 1, 512, 256, 64, 128, false, true},
    {"S1f32", 8, 512, 512, 64, 64, true, true},
    {"S3f32", 16, 512, 512, 64, 64, true, true},
    {"S6f32", 16, 256, 256, 80, 80, true, true},
    {"S7f32", 1, 512, 256, 64, 64, true, true},
    {"S8f32", 1, 768, 384, 64, 64, true, true},
    {"S9f32", 1, 1024, 512, 64, 64, true, true},
};

std::string text_of(ChainCase c) {
  std::string text = c.is_attention ? R"(
  (q: f16[$B,$M,$K], k: f16[$B,$N,$K], v: f16[$B,$N,$H]) {
    a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f16[$B,$M,$N]
    w = convert a : f32[$B,$M,$N]
    c = constant 0.125 : f32[]
    cb = broadcast c, dims={} : f32[$B,$M,$N]
    t = mul w, cb : f32[$B,$M,$N]
    m = reduce t, axes={2}, combiner=max : f32[$B,$M]
    mb = broadcast m, dims={0,1} : f32[$B,$M,$N]
    d = sub t, mb : f32[$B,$M,$N]
    e = exp d : f32[$B,$M,$N]
    s = reduce e, axes={2}, combiner=sum : f32[$B,$M]
    sb = broadcast s, dims={0,1} : f32[$B,$M,$N]
    r = div e, sb : f32[$B,$M,$N]
    p = convert r : f16[$B,$M,$N]
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f16[$B,$M,$H]
  } -> (y))"
                                    : R"(
  (x: f16[$B,$M,$K], w: f16[$B,$K,$N], u: f16[$B,$N,$H]) {
    c = dot_general x, w, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f16[$B,$M,$N]
    y = dot_general c, u, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f16[$B,$M,$H]
  } -> (y))";
  for (const auto& [name, extent] :
       {std::pair("$B", c.b), std::pair("$M", c.m), std::pair("$N", c.n), std::pair("$K", c.k),
        std::pair("$H", c.h)})
    text = replaced(text, name, std::to_string(extent));
  if (!c.is_float32) return text;
  text = replaced(text, "    w = convert a : f32[", "    w = neg a : f32[");
  text = replaced(text, "    p = convert r : f16[", "    p = neg r : f32[");
  return replaced(text, "f16", "f32");
}

class ChainShapes : public ::testing::TestWithParam<ChainCase> {
 protected:
  void SetUp() override {
    if (!can_emulate()) GTEST_SKIP() << "no compiler to build CUDA text with";
  }
};

/// How the chain is composed at its full size, as the plan's text has it; empty: not as one kernel.
std::string composition_of(const ChainCase& c, const Target& target) {
  CompileOptions options;
  options.planner = "chain";
  options.device = target;
  options.stop_after = "plan";
  const auto graph = parse_graph(text_of(c));
  EXPECT_TRUE(graph.ok());
  const auto compiled = compile_graph(*graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  if (!compiled.ok() || (*compiled)->plan.kernels.size() != 1) return "";
  const ScheduledKernel& kernel = (*compiled)->plan.kernels[0].schedule;
  return '"' + kernel.schedule_template + "\" by " + print(kernel.composition);
}

/// A plan of one kernel, composed so.
std::string plan_of(const ChainCase& c, const std::string& composition) {
  // Conversions to a wider type are their readers'.
  const char* members = !c.is_attention ? "c, y"
                        : c.is_float32  ? "a, w, t, m, d, e, s, r, p, y"
                                        : "a, t, m, d, e, s, r, p, y";
  return "plan chain {\n  kernel k0_y compute " + composition + ": " + members + " -> y\n}\n";
}

/// What is left of the tiles that the composition has: rows of a tile and a half, an axis that no
/// step divides, a depth and columns of odd length. An axis in parts keeps all of these.
ChainCase smaller(ChainCase c, int shape, bool is_split) {
  constexpr int64_t kRows[] = {19, 37, 71}, kLengths[] = {75, 141, 203};
  c.b = std::min<int64_t>(c.b, 2);
  c.m = kRows[shape];
  c.n = is_split ? c.n - 3 - 2 * shape : std::min(c.n - 1, kLengths[shape]);
  c.k = std::max<int64_t>(c.k / 4, 16) - (shape == 2 ? 3 : 0) + 8 * shape;
  c.h = std::max<int64_t>(c.h / 4, 16) - (shape == 2 ? 5 : 0) + 8 * shape;
  return c;
}

TEST_P(ChainShapes, AreRightAtOddSizes) {
  constexpr const char* kDevices[] = {"a100-40gb", "rtx3080", "h100-sxm"};
  const bool all = std::getenv("WEFT_ALL_SHAPES") != nullptr;
  for (int shape = 0; shape < 3; ++shape) {
    if (!all && shape != static_cast<int>(GetParam().m / 64 + GetParam().h / 16 + GetParam().b) % 3)
      continue;
    const Target target = *find_target(kDevices[shape]);
    const std::string composition = composition_of(GetParam(), target);
    ASSERT_NE(composition, "") << target.name;
    const bool is_split = composition.find(" splits ") != std::string::npos;
    const ChainCase small = smaller(GetParam(), shape, is_split);
    const std::string text = text_of(small);
    SCOPED_TRACE(target.name + text + composition);
    CompileOptions options;
    options.plan_text = plan_of(small, composition);
    options.plan_source = "chain.plan";
    const EmulatedRun run = run_and_compare(text, target, 2e-2, false, options);
    ASSERT_NE(run.compilation, nullptr);
    ASSERT_EQ(run.launches.size(), 1U);
    EXPECT_TRUE(run.launches[0].report.issues.empty());
    // Behind the steps a cluster's block leaves odd columns one by one, of which two meet.
    const simt::Traffic& traffic = run.launches[0].report.traffic;
    const bool leaves_odd_columns =
        run.compilation->plan.kernels[0].schedule.scopes.cluster_blocks > 1 && small.h % 2 != 0;
    // A tile of float32 that is stored once and read by steps is laid out for these, which are few
    // of such small depths.
    const bool meets = leaves_odd_columns || small.is_float32;
    const int64_t share = small.is_float32 ? 14 : 50;
    const int64_t few = meets ? traffic.shared.ideal_wavefronts / share : 0;
    EXPECT_LE(traffic.shared.wavefronts - traffic.shared.ideal_wavefronts, few)
        << simt::print(run.launches[0].report);
    EXPECT_TRUE(traffic.bank_conflicts.empty() || meets) << simt::print(run.launches[0].report);
    if (!all || HasFailure()) continue;
    std::printf("| %s | %s | %d x %d x %d x %d x %d | %s | %zu | %zu |\n", GetParam().name,
                target.name.c_str(), static_cast<int>(small.b), static_cast<int>(small.m),
                static_cast<int>(small.n), static_cast<int>(small.k), static_cast<int>(small.h),
                run.schedule(0).schedule_template.c_str(), run.launches[0].report.issues.size(),
                run.launches[0].report.traffic.bank_conflicts.size());
  }
}

/// What the rows multiply stays in the block where steps end with it, and comes with them where the
/// last one ends beyond.
TEST_F(GpuPipeline, StepsOfADepthEndWithItOrBeyond) {
  for (const int64_t depth : {128, 141}) {
    const ChainCase c{"", 1, 40, 130, depth, 32, false};
    CompileOptions options;
    options.plan_text = plan_of(
        c,
        "\"chain on fragments of 4 warps\" by chain(v3: d1 32 carrying v1 r0 64) { leaf(fragments "
        "depth 64) v0 v1 v2 v3 }");
    options.plan_source = "chain.plan";
    const EmulatedRun run =
        run_and_compare(text_of(c), *find_target("a100-40gb"), 2e-2, false, options);
    ASSERT_NE(run.compilation, nullptr);
    const std::string program = *print_level(*run.compilation, "tile-program");
    EXPECT_EQ(program.find("A[b0,k] = ") != std::string::npos, depth == 141) << program;
  }
}

/// Rows of a second product that lie across what it sums: its units take them along that, so that
/// they pass through the block's memory.
TEST_F(GpuPipeline, RowsOfUnitsThatLieAcross) {
  CompileOptions options;
  options.planner = "chain";
  const EmulatedRun run = run_and_compare(R"(
  (x: f16[40,20], w: f16[20,75], u: f32[40,33]) {
    c = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[40,75]
    s = dot_general c, u, lhs_contract={0}, rhs_contract={0} : f32[75,33]
    e = constant 0.0625 : f32[]
    b = broadcast e, dims={} : f32[75,33]
    y = mul s, b : f32[75,33]
  } -> (y))",
                                          *find_target("a100-40gb"), 2e-2, true, options);
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_EQ(run.launches.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(All, ChainShapes, ::testing::ValuesIn(kCases),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace weft::testing
