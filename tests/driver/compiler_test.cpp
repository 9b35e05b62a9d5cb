#include "driver/compiler.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "driver/arena.h"
#include "driver/bisect.h"
#include "driver/session.h"

namespace weft {
namespace {

Graph graph_of(const char* text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return std::move(*graph);
}

constexpr const char* kChain = R"(
(x: f32[6,20], w: f32[20,16]) {
  a = exp x : f32[6,20]
  p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[6,16]
  y = tanh p : f32[6,16]
} -> (y))";

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph.inputs) {
    HostTensor t(graph.type(v).dtype, graph.type(v).shape);
    for (int64_t i = 0; i < t.size(); ++i)
      t.set_double(i, 0.01 * static_cast<double>((i * 37) % 101) - 0.5);
    inputs.push_back(std::move(t));
  }
  return inputs;
}

TEST(Arena, NeverOverlapsBlocksAliveTogether) {
  const std::vector<ArenaBlock> blocks = {
      {100, 0, 2}, {300, 1, 3}, {64, 2, 2}, {100, 3, 5}, {300, 4, 5}};
  const ArenaLayout layout = place_arena(blocks);
  for (size_t a = 0; a < blocks.size(); ++a) {
    EXPECT_EQ(layout.offsets[a] % 64, 0);
    for (size_t b = a + 1; b < blocks.size(); ++b) {
      if (blocks[a].last < blocks[b].first || blocks[b].last < blocks[a].first) continue;
      EXPECT_TRUE(layout.offsets[a] + blocks[a].bytes <= layout.offsets[b] ||
                  layout.offsets[b] + blocks[b].bytes <= layout.offsets[a]);
    }
  }
  EXPECT_LE(layout.bytes, 512);
}

TEST(CompileGraph, EveryPassIsTimedAndVerified) {
  CompileOptions options;
  options.verify = true;
  auto c = compile_graph(graph_of(kChain), options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ((*c)->timings.size(), pipeline().size());
  EXPECT_EQ((*c)->plan.kernels.size(), 2U);
}

TEST(CompileGraph, StopsAfterAPassByName) {
  CompileOptions options;
  options.stop_after = "plan";
  auto c = compile_graph(graph_of(kChain), options);
  ASSERT_TRUE(c.ok());
  EXPECT_FALSE((*c)->plan.kernels.empty());
  EXPECT_TRUE((*c)->kernels.empty());
}

TEST(CompileModel, ReadsAPrintedGraphAndRefusesHlo) {
  const std::string path = testing::TempDir() + "compiler_test.graph";
  std::ofstream(path) << kChain;
  auto c = compile_model(path, {});
  ASSERT_TRUE(c.ok()) << c.error().message;
  auto session = Session::create((*c)->program, 1);
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE((*session)->run(inputs_of((*c)->graph)).ok());
  std::filesystem::remove(path);
  EXPECT_EQ(compile_model("model.hlo", {}).error().code, ErrorCode::kMissingDevice);
}

TEST(Bisect, FindsNothingInARightProgram) {
  const Graph graph = graph_of(kChain);
  auto found = bisect(graph, inputs_of(graph), {}, 1e-3, 1e-4);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_FALSE(found->has_value());
}

/// Makes the first hyperbolic tangent of a kernel an exponential.
void plant(KernelBlock& block) {
  for (KernelInstruction& i : block.body) {
    if (i.op == KernelOp::kApply && i.scalar_op == ScalarOp::kTanh) i.scalar_op = ScalarOp::kExp;
    for (KernelBlock& region : i.regions) plant(region);
  }
}

TEST(Bisect, FindsTheKernelThatATestMadeWrong) {
  const Graph graph = graph_of(kChain);
  CompileOptions options;
  options.tamper = [](KernelFunction& f) {
    for (KernelPhase& phase : f.phases) plant(phase.body);
  };
  auto found = bisect(graph, inputs_of(graph), options, 1e-3, 1e-4);
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->value, "y");
  EXPECT_FALSE((*found)->difference.empty());
  EXPECT_TRUE(verify_graph((*found)->reduced).ok());
  // The product and what follows it, with the exponentials that it reads as a constant.
  EXPECT_TRUE((*found)->reduced.inputs.empty());
}

}  // namespace
}  // namespace weft
