// Stages of a GPU's block that hand each other rows in the registers of a warp (FusionStitching
// 2021 §4.2, warp composition): laid out alike, priced beside block memory, run by the emulator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/explain/candidates_text.h"
#include "driver/explain/stitching.h"
#include "tests/driver/emulated_graph.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Sums along one axis, the largest of their roots along another, and what is costly for both.
std::string two_axes(int64_t rows, int64_t middle, int64_t length) {
  const std::string r = std::to_string(rows), rm = r + "," + std::to_string(middle),
                    all = rm + "," + std::to_string(length);
  return "(x: f32[" + all + "]) {\n  e = exp x : f32[" + all +
         "]\n  s = reduce e, axes={2}, combiner=sum : f32[" + rm + "]\n  r = sqrt s : f32[" + rm +
         "]\n  m = reduce r, axes={1}, combiner=max : f32[" + r +
         "]\n  mb = broadcast m, dims={0} : f32[" + rm + "]\n  z = div r, mb : f32[" + rm +
         "]\n  zb = broadcast z, dims={0,1} : f32[" + all + "]\n  y = mul e, zb : f32[" + all +
         "]\n} -> (y)";
}

Scope scope_of(const ScheduledKernel& kernel, const std::string& name) {
  for (size_t s = 0; s < kernel.program.symbols.size(); ++s) {
    if (kernel.program.symbols[s].name == name) return kernel.scopes.symbols[s].scope;
  }
  ADD_FAILURE() << "nothing is called " << name;
  return Scope::kGrid;
}

/// A warp has a row's sums and all that they are of: no block memory, and no barrier.
TEST(WarpStages, HandEachOtherRowsByShuffles) {
  if (!can_emulate()) GTEST_SKIP() << "no compiler for the emulator";
  const EmulatedRun run = run_and_compare(two_axes(512, 16, 32), *find_target("a100-40gb"));
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(run.launches.size(), 1U);
  const ScheduledKernel& kernel = run.schedule(0);
  ASSERT_EQ(kernel.composition.stages.size(), 2U) << print(kernel.composition);
  EXPECT_EQ(scope_of(kernel, "e"), Scope::kWarp) << "it is costly, and handed on";
  EXPECT_EQ(scope_of(kernel, "r"), Scope::kWarp);
  EXPECT_EQ(kernel.scopes.block_bytes, 0);
  EXPECT_TRUE(kernel.scopes.barriers.empty());
  for (const StitchedOp& op :
       stitching_of(run.compilation->tensors, run.compilation->plan.kernels[0]))
    EXPECT_NE(op.scheme, StitchingScheme::kRegional) << op.name;
}

/// The layouts of stages are a choice, by what both ways are predicted to take.
TEST(WarpStages, ArePricedBesideBlockMemory) {
  CompileOptions options;
  options.device = *find_target("a100-40gb");
  options.stop_after = "plan";
  const auto considered = [&](const std::string& graph) {
    auto c = compile_graph(*parse_graph(graph), options);
    EXPECT_TRUE(c.ok()) << c.error().message;
    const auto text = candidates_text(explained(**c), "1");
    return text.ok() ? *text : std::string();
  };
  EXPECT_THAT(considered(two_axes(4096, 16, 32)),
              HasSubstr("block(v5: d0 4) handed on by warps\n"));
  EXPECT_THAT(considered(two_axes(4096, 16, 32)),
              ::testing::ContainsRegex("\\*    ..... us  block\\(v5: d0 4\\) handed on by warps"));
  // No warp has room for so much: it is not asked.
  EXPECT_THAT(considered(two_axes(512, 256, 128)), Not(HasSubstr("handed on by warps")));
}

/// The text says the layouts, of which the rest follows.
TEST(WarpStages, AreBuiltFromAPlanAsTheyWereComposed) {
  CompileOptions options;
  options.device = *find_target("a100-40gb");
  const std::string graph = two_axes(4096, 16, 24);
  const auto first = compile_graph(*parse_graph(graph), options);
  ASSERT_TRUE(first.ok()) << first.error().message;
  options.plan_text = *print_level(**first, "plan");
  options.plan_source = "p.plan";
  const auto second = compile_graph(*parse_graph(graph), options);
  ASSERT_TRUE(second.ok()) << second.error().message;
  for (const char* level : {"plan", "tile-program", "kernel"})
    EXPECT_EQ(*print_level(**second, level), *print_level(**first, level)) << level;
  EXPECT_THAT(*print_level(**first, "tile-program"), HasSubstr("by shuffle"));
}

/// Axes whose lengths are no powers of two, and more elements than lanes.
TEST(WarpStages, HoldAxesOfAnyLength) {
  if (!can_emulate()) GTEST_SKIP() << "no compiler for the emulator";
  for (const auto& [rows, middle, length] : {std::tuple(40, 5, 36), {64, 33, 18}, {24, 7, 7}}) {
    const EmulatedRun run =
        run_and_compare(two_axes(rows, middle, length), *find_target("h100-sxm"), 1e-4);
    ASSERT_NE(run.compilation, nullptr);
  }
}

}  // namespace
}  // namespace weft::testing
