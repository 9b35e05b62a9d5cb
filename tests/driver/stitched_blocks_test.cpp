// What FusionStitching decides for each operation of a block, as it is here: which have loops and
// memory of their own, how blocks cut what they store, which space is shared, and whether what is
// expensive is kept or made again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "driver/compilation.h"
#include "driver/explain/candidates_text.h"
#include "driver/explain/explain_text.h"
#include "driver/explain/kernel_summary.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "tests/driver/emulated_graph.h"

namespace weft::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// FusionStitching 2018, Fig. 3, with the product before the rows: Dot, Reduce.1, Exponential.1,
/// Reduce.2, Divide.1, Bitcast.1, Dot.1.
const char* const kFig3 = R"((q: f32[8,64,16], k: f32[8,64,16], v: f32[8,64,16]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[8,64,64]
  s = reshape a : f32[4,2,64,64]
  m = reduce s, axes={3}, combiner=max : f32[4,2,64]
  mb = broadcast m, dims={0,1,2} : f32[4,2,64,64]
  d = sub s, mb : f32[4,2,64,64]
  e = exp d : f32[4,2,64,64]
  z = reduce e, axes={3}, combiner=sum : f32[4,2,64]
  zb = broadcast z, dims={0,1,2} : f32[4,2,64,64]
  n = div e, zb : f32[4,2,64,64]
  w = reshape n : f32[8,64,64]
  y = dot_general w, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[8,64,16]
} -> (y))";

CompileOptions one_kernel() {
  CompileOptions options;
  options.compositions = "leaf,block";
  options.planner_parameters = "gain=0";
  options.device = *find_target("x86-64-v3");
  options.verify = true;
  return options;
}

/// Compiled and equal to the interpreter.
std::unique_ptr<Compilation> run_here(const char* text, const CompileOptions& options) {
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph->inputs) {
    HostTensor& t = inputs.emplace_back(graph->type(v).dtype, graph->type(v).shape);
    for (int64_t i = 0; i < t.size(); ++i)
      t.set_double(i, static_cast<double>((i * 37 + 11) % 29) / 14.5 - 1);
  }
  auto compiled = compile_graph(*graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  if (!compiled.ok()) return nullptr;
  for (const int threads : {1, 3}) {
    const auto session = Session::create((*compiled)->program, threads);
    const auto got = (*session)->run(inputs);
    const auto expected = interpret(*graph, inputs);
    EXPECT_TRUE(got.ok() && expected.ok());
    for (int64_t i = 0; i < (*expected)[0].size(); ++i) {
      const double e = (*expected)[0].at_double(i);
      EXPECT_NEAR((*got)[0].at_double(i), e, 1e-5 * std::max(1.0, std::abs(e))) << i;
      if (::testing::Test::HasFailure()) return nullptr;
    }
  }
  return std::move(*compiled);
}

/// §5.1.1: what reduces, is read by several or multiplied; §5.2, Algorithm 2: these are stitched,
/// what is cheap and read once is written where it is read.
TEST(StitchedBlocks, OperationsAreStitchedOrInlined) {
  const auto c = run_here(kFig3, one_kernel());
  ASSERT_NE(c, nullptr);
  ASSERT_EQ(c->plan.kernels.size(), 1U) << *print_level(*c, "plan");
  const auto emission = emission_of(c->tensors, c->plan.kernels[0]);
  ASSERT_TRUE(emission.has_value());
  EXPECT_THAT(emission->stitched, ElementsAre("a", "m", "e", "z", "n", "y"));
  EXPECT_THAT(emission->inlined, ElementsAre("d"));
  EXPECT_THAT(explain_text(explained(*c)), HasSubstr("stitched: a, m, e, z, n, y; inlined: d"));
}

/// A value that a block hands on is kept for other stages, or made again by each of them
/// (FusionStitching 2021 §4.2), whichever takes less: both are listed.
TEST(StitchedBlocks, WhatIsHandedOnIsKeptOrMadeAgain) {
  const auto graph = [](const std::string& cheap_or_costly) {
    return "(a: f32[64,32], b: f32[64,48], w: f32[64,48,8]) {\n"
           "  ab = broadcast a, dims={0,1} : f32[64,32,48]\n"
           "  bb = broadcast b, dims={0,2} : f32[64,32,48]\n" +
           cheap_or_costly + R"(
  m = reduce c, axes={1}, combiner=max : f32[64,48]
  mb = broadcast m, dims={0,2} : f32[64,32,48]
  d = mul c, mb : f32[64,32,48]
  n = reduce d, axes={2}, combiner=max : f32[64,32]
  nb = broadcast n, dims={0,1} : f32[64,32,48]
  e = mul c, nb : f32[64,32,48]
  y = dot_general e, w, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[64,32,8]
} -> (y))";
  };
  CompileOptions options = one_kernel();
  options.planner = "greedy";
  const auto costly = run_here(
      graph("  t = add ab, bb : f32[64,32,48]\n  c = tanh t : f32[64,32,48]").c_str(), options);
  ASSERT_NE(costly, nullptr);
  const auto both = candidates_text(explained(*costly), "1");
  ASSERT_TRUE(both.ok());
  EXPECT_THAT(*both, HasSubstr(" readers make v1, v3\n                  kept they take "));
  const auto emission = emission_of(costly->tensors, costly->plan.kernels[0]);
  ASSERT_TRUE(emission.has_value());
  EXPECT_THAT(emission->stitched, ::testing::Contains("c")) << "what is costly is kept";
  EXPECT_THAT(emission->inlined, ::testing::Contains("d")) << "a product is made again";
}

/// Indices of a kernel's text that stand in sight of one that is the same: in its block, or in one
/// around it. Their number, and how often a thread asks which it is.
struct Repeated {
  int again = 0;
  int positions = 0;
};

Repeated repeated_in(const std::string& text) {
  Repeated out;
  std::vector<std::set<std::string>> scopes(1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t closing = line.find_first_not_of(' ');
    if (closing != std::string::npos && line[closing] == '}' && scopes.size() > 1)
      scopes.pop_back();
    const size_t equals = line.find(" = ");
    const bool opens = line.ends_with("{");
    if (equals != std::string::npos && !opens) {
      const std::string made = line.substr(equals + 3);
      const std::string type = line.substr(line.find(": "), equals - line.find(": "));
      const bool pure = type == ": i64" && !made.starts_with("load") &&
                        !made.starts_with("gather") && !made.starts_with("warp") &&
                        !made.starts_with("matrix");
      if (pure) {
        out.positions += made.starts_with("position");
        for (const std::set<std::string>& scope : scopes) out.again += scope.contains(made + type);
        scopes.back().insert(made + type);
      }
    }
    if (opens) scopes.emplace_back();
  }
  return out;
}

/// FusionStitching 2021 §4.5: stages of one kernel have indices and what threads compute for
/// themselves in common. Nothing that is in sight is computed again: a thread asks once which it
/// is.
TEST(StitchedBlocks, StagesShareIndicesAndThreadLocalComputation) {
  const auto here = run_here(kFig3, one_kernel());
  ASSERT_NE(here, nullptr);
  EXPECT_EQ(repeated_in(*print_level(*here, "kernel")).again, 0);
  CompileOptions given = one_kernel();
  given.device = *find_target("a100-40gb");
  given.plan_text = *print_level(*here, "plan");
  given.plan_source = "p.plan";
  const auto gpu = compile_graph(*parse_graph(kFig3), given);
  ASSERT_TRUE(gpu.ok()) << gpu.error().message;
  ASSERT_GE((*gpu)->plan.kernels[0].schedule.composition.stages.size(), 2U);
  const Repeated on_gpu = repeated_in(*print_level(**gpu, "kernel"));
  EXPECT_EQ(on_gpu.again, 0);
  EXPECT_LE(on_gpu.positions, 2) << "warp and lane";
}

/// On a CPU the weights take the place of the scores, row by row (FusionStitching 2018 §5.1.3). On
/// a GPU scores are in registers before weights are made, so that lifetimes say the same.
TEST(StitchedBlocks, WeightsStandWhereScoresWere) {
  const auto here = run_here(kFig3, one_kernel());
  ASSERT_NE(here, nullptr);
  const ScheduledKernel& kernel = here->plan.kernels[0].schedule;
  const auto ends_in_place = [](const SymbolScope& s) {
    return s.reason.find("; in the place of ") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(kernel.scopes.symbols, ends_in_place), 1)
      << *print_level(*here, "tile-program");
  const auto arena = arena_summary(here->plan.kernels[0]);
  ASSERT_TRUE(arena.has_value());
  EXPECT_EQ(arena->allocated, arena->least);
  EXPECT_LT(arena->allocated, arena->requested);
  // Rows that a GPU's warps do not hand each other in registers.
  const std::string longer = replaced(kFig3, "64", "256");
  const auto rows = run_here(longer.c_str(), one_kernel());
  ASSERT_NE(rows, nullptr);
  CompileOptions given = one_kernel();
  given.plan_text = *print_level(*rows, "plan");
  given.plan_source = "p.plan";
  given.device = *find_target("a100-40gb");
  given.stop_after = "plan";
  const auto gpu = compile_graph(*parse_graph(longer), given);
  ASSERT_TRUE(gpu.ok()) << gpu.error().message;
  const auto shared = arena_summary((*gpu)->plan.kernels[0]);
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->allocated, shared->least);
  EXPECT_LT(shared->allocated, shared->requested);
}

}  // namespace
}  // namespace weft::testing
