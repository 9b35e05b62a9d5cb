// Launch bounds of kernels that memory bounds (AStitch's launch configuration): a thousand threads
// on an SM at first, fewer where shared memory or the grid leaves no more; all registers that this
// leaves are the code's.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/explain/explain_text.h"
#include "driver/explain/kernel_summary.h"
#include "tests/driver/emulated_graph.h"
#include "tests/graph_texts.h"
#include "tile/check/fits.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Compilation> compiled(const std::string& graph, const Target& target) {
  CompileOptions options;
  options.device = target;
  options.stop_after = "lower";
  auto c = compile_graph(*parse_graph(graph), options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return c.ok() ? std::move(*c) : nullptr;
}

std::string bound_of(const std::string& graph, const Target& target) {
  const auto c = compiled(graph, target);
  return c == nullptr ? "" : launch_bound(c->plan.kernels[0], target);
}

TEST(LaunchBound, LeavesAThousandThreadsTheirRegisters) {
  const Target target = *find_target("a100-40gb");
  EXPECT_EQ(bound_of(softmax(4096, 1024), target),
            "launch bound: 16 blocks of 64 threads on an SM, 64 registers each");
  const auto c = compiled(softmax(4096, 1024), target);
  ASSERT_NE(c, nullptr);
  EXPECT_THAT(explain_text(explained(*c)), HasSubstr("launch bound: 16 blocks"));
  EXPECT_EQ(c->kernels[0].function.blocks_per_sm, 16);
}

/// What shared memory leaves no room for is not stated, and its registers are the code's.
TEST(LaunchBound, IsRelaxedWhereSharedMemoryLimits) {
  const char* const across = R"((x: f32[4096,4096]) {
  y = transpose x, permutation={1,0} : f32[4096,4096]
  z = exp y : f32[4096,4096]
} -> (z))";
  Target target = *find_target("a100-40gb");
  const auto whole = compiled(across, target);
  ASSERT_NE(whole, nullptr);
  const int64_t bytes = whole->plan.kernels[0].schedule.scopes.block_bytes;
  ASSERT_GT(bytes, 0);
  const int64_t all = bounded_blocks_per_sm(whole->plan.kernels[0].schedule.program,
                                            whole->plan.kernels[0].schedule.scopes, target);
  ASSERT_GT(all, 2);
  target.shared_bytes_per_sm = 2 * (bytes + 1024);
  const ScheduledKernel& kernel = whole->plan.kernels[0].schedule;
  EXPECT_EQ(bounded_blocks_per_sm(kernel.program, kernel.scopes, target), 2);
  const int64_t threads = kernel.program.warps * 32;
  EXPECT_GT(registers_for_residency(target, threads, 2),
            registers_for_residency(target, threads, all));
}

/// A grid of few blocks leaves a block all that it may have; a product has its own models.
TEST(LaunchBound, IsNoneWhereThereIsNothingToShare) {
  const Target target = *find_target("a100-40gb");
  EXPECT_THAT(bound_of(softmax(64, 1024), target), IsEmpty());
  EXPECT_THAT(bound_of(R"((x: f16[512,512], w: f16[512,512]) {
  y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f16[512,512]
} -> (y))",
                       target),
              IsEmpty());
}

/// A warp group's instruction takes its sums and some 26 registers more: the assembler refuses
/// less.
TEST(LaunchBound, LeavesWarpGroupsTheirInstructions) {
  const Target target = *find_target("h100-sxm");
  for (const int64_t n : {128, 192, 256}) {
    CompileOptions options;
    options.device = target;
    options.stop_after = "lower";
    options.plan_text = fmt::format(
        "plan auto {{\n  kernel k compute \"contract on matrix units 128x{0}x64, 2 stages, 2 warp "
        "groups, {1} B shared\" by leaf(tiles m 128 n {0} k 64 warps_m 8 stages 2 groups true): y "
        "-> "
        "y\n}}\n",
        n, 2 * (128 + n) * 64 * 2);
    const auto c = compile_graph(*parse_graph(R"((x: f16[25088,128], w: f16[128,768]) {
  y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f16[25088,768]
} -> (y))"),
                                 options);
    ASSERT_TRUE(c.ok()) << c.error().message;
    const int64_t blocks = (*c)->kernels[0].function.blocks_per_sm;
    const int64_t sums = 128 * n / 256;
    EXPECT_GE(registers_for_residency(target, 256, blocks), sums + 26) << n;
  }
}

/// The code states it, and needs no memory for its registers all the same.
TEST(LaunchBound, StandsInTheCode) {
  if (!can_emulate()) GTEST_SKIP() << "no compiler for the emulator";
  const EmulatedRun run = run_and_compare(softmax(4096, 1024), *find_target("a100-40gb"));
  ASSERT_NE(run.compilation, nullptr);
  EXPECT_THAT(run.code(), ::testing::ContainsRegex("WF_KERNEL\\([a-z0-9_]*, 64, 16\\)"));
  expect_no_spills(run);
}

}  // namespace
}  // namespace weft::testing
