// Contractions of which one reduces what another made, as one kernel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/generators/chains.h"
#include "target/model_cpu.h"
#include "tests/graph_texts.h"
#include "tests/plan/planned.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// softmax(q k) v, longer than it is wide, with a product before the queries and a sum behind.
const char* const kLongRows =
    R"((x: f32[2048,64], w: f32[64,64], k: f32[2048,64], v: f32[2048,64], b: f32[64]) {
  q = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[2048,64]
  s = dot_general q, k, lhs_contract={1}, rhs_contract={1} : f32[2048,2048]
  m = reduce s, axes={1}, combiner=max : f32[2048]
  mb = broadcast m, dims={0} : f32[2048,2048]
  d = sub s, mb : f32[2048,2048]
  e = exp d : f32[2048,2048]
  l = reduce e, axes={1}, combiner=sum : f32[2048]
  lb = broadcast l, dims={0} : f32[2048,2048]
  p = div e, lb : f32[2048,2048]
  c = dot_general p, v, lhs_contract={1}, rhs_contract={0} : f32[2048,64]
  bb = broadcast b, dims={1} : f32[2048,64]
  y = add c, bb : f32[2048,64]
} -> (y))";

TEST(Chains, HoldWhatLiesBetweenContractions) {
  const TensorProgram p = expressed(kLongRows);
  std::vector<std::string> found;
  for (const std::vector<int>& chain : chains_of(p, FusionGraph(p))) {
    std::string names;
    for (const int s : chain) {
      const TensorExpr& e = p.exprs[static_cast<size_t>(p.steps[static_cast<size_t>(s)].index)];
      names += p.tensors[static_cast<size_t>(e.output)].name;
    }
    found.push_back(names);
  }
  // A sum that depends on a maximum of what a contraction makes ends one, too.
  EXPECT_THAT(found, ElementsAre("qs", "smdel", "qsmdelpcy", "qsmdelpc", "smdelpcy", "smdelpc"));
}

TEST(Chains, BecomeKernelsWhereTheyAreQuicker) {
  const TensorProgram p = expressed(kLongRows);
  const Target target = *find_target("x86-64-v3");
  const FusionPlan plan = plan_of(p, target, "chain");
  // Whether the first product is part of it makes a thousandth.
  ASSERT_LE(plan.kernels.size(), 2U) << print(plan, p);
  EXPECT_THAT(summary(plan.kernels.back(), p),
              HasSubstr("s, m, d, e, l, p, c, y: compute chain of"));
  EXPECT_THAT(plan.edges.back().reason, HasSubstr("a chain takes"));
  // What a thread keeps does not grow with the rows' length: a step's scores, not all of them.
  EXPECT_LT(plan.kernels.back().schedule.scopes.block_bytes, 2048 * 64 * 4);
  EXPECT_EQ(print(*parse_plan(print(plan, p), p, target), p), print(plan, p));
}

TEST(Chains, AreMadeByDefaultOfWhatDoesNotStayInCaches) {
  const TensorProgram p = expressed(kLongRows);
  Target target = *find_target("x86-64-v3");
  // Scores and weights are 16 MB each, and what the second product makes less than one.
  target.l3_bytes = 72 << 20;
  EXPECT_THAT(print(plan_of(p, target, "auto"), p), Not(HasSubstr("chain")));
  target.l3_bytes = 32 << 20;
  const FusionPlan plan = plan_of(p, target, "auto");
  ASSERT_LE(groups_of(plan), 2U) << print(plan, p);
  EXPECT_THAT(summary(plan.kernels[0], p),
              AllOf(HasSubstr("s, m, d, e, l, p, c, y: compute"), HasSubstr("chain of stages")));
}

/// What makes a chain's operand element by element does not take the chain's expressions into a
/// block of stages again.
TEST(Chains, StayChainsBesideWhatBlocksHold) {
  const TensorProgram p = expressed(R"((x: f32[6,1500,64], k: f32[6,64,1500], v: f32[6,1500,64]) {
  q = tanh x : f32[6,1500,64]
  s = dot_general q, k, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={1} : f32[6,1500,1500]
  m = reduce s, axes={2}, combiner=max : f32[6,1500]
  mb = broadcast m, dims={0,1} : f32[6,1500,1500]
  d = sub s, mb : f32[6,1500,1500]
  e = exp d : f32[6,1500,1500]
  l = reduce e, axes={2}, combiner=sum : f32[6,1500]
  lb = broadcast l, dims={0,1} : f32[6,1500,1500]
  p = div e, lb : f32[6,1500,1500]
  y = dot_general p, v, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={1} : f32[6,1500,64]
} -> (y))");
  CpuIdentity identity;
  identity.vector_bytes = 32;
  identity.fma_units = 2;
  identity.vendor = "AuthenticAMD";
  identity.features = find_target("x86-64-v3")->features;
  const Target target =
      model_cpu(identity, {.l1 = 32 << 10, .l2 = 512 << 10, .l3 = int64_t{32} << 20}, 3.2, 2);
  const FusionPlan plan = plan_of(p, target, "auto");
  EXPECT_THAT(print(plan, p), HasSubstr("chain(")) << print(plan, p);
}

/// Rows of 1,500 scores fit the second cache of a core, where a block of stages keeps a strip of
/// them; in steps of a chain they stay in the first one.
TEST(Chains, AreWeighedAgainstBlocksOfStages) {
  const TensorProgram p = expressed(R"((q: f32[1500,4,64], k: f32[1500,4,64], v: f32[1500,4,64]) {
  s = dot_general q, k, lhs_batch={1}, rhs_batch={1}, lhs_contract={2}, rhs_contract={2} : f32[4,1500,1500]
  m = reduce s, axes={2}, combiner=max : f32[4,1500]
  mb = broadcast m, dims={0,1} : f32[4,1500,1500]
  d = sub s, mb : f32[4,1500,1500]
  e = exp d : f32[4,1500,1500]
  l = reduce e, axes={2}, combiner=sum : f32[4,1500]
  lb = broadcast l, dims={0,1} : f32[4,1500,1500]
  p = div e, lb : f32[4,1500,1500]
  y = dot_general p, v, lhs_batch={0}, rhs_batch={1}, lhs_contract={2}, rhs_contract={0} : f32[4,1500,64]
} -> (y))");
  CpuIdentity identity;
  identity.vector_bytes = 64;
  identity.fma_units = 2;
  identity.vendor = "GenuineIntel";
  identity.features = find_target("x86-64-v4")->features;
  const Target target =
      model_cpu(identity, {.l1 = 48 << 10, .l2 = 2 << 20, .l3 = int64_t{480} << 20}, 3.5, 2);
  PlanOptions without_chains;
  without_chains.compositions = "leaf,block";
  const FusionPlan blocks = *plan_fusion(p, target, without_chains), plan = plan_of(p, target);
  EXPECT_THAT(summary(blocks.kernels[0], p), HasSubstr("compute stages"));
  EXPECT_THAT(summary(plan.kernels[0], p), HasSubstr("compute chain of"));
}

TEST(Chains, AreLeftWhereACarryHasNoPlaceInRegisters) {
  // 1,000 columns are no whole vectors, so that each would be a register.
  const TensorProgram p = expressed(R"((q: f32[2048,16], k: f32[2048,16], v: f32[2048,1000]) {
  s = dot_general q, k, lhs_contract={1}, rhs_contract={1} : f32[2048,2048]
  e = exp s : f32[2048,2048]
  c = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[2048,1000]
} -> (c))");
  Target target = *find_target("x86-64-v4");
  target.l3_bytes = 1 << 20;
  const FusionPlan plan = plan_of(p, target, "auto");
  EXPECT_EQ(groups_of(plan), 2U) << print(plan, p);
}

TEST(Chains, AreLeftWhereTheyAreNotQuicker) {
  // Eight rows: nothing is saved by leaving out what is small.
  const TensorProgram p = expressed(R"((x: f32[8,1024], w: f32[1024,1024], u: f32[1024,1024]) {
  a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[8,1024]
  t = tanh a : f32[8,1024]
  y = dot_general t, u, lhs_contract={1}, rhs_contract={0} : f32[8,1024]
} -> (y))");
  EXPECT_EQ(plan_of(p, two_cores(), "chain").kernels.size(), 2U);
}

}  // namespace
}  // namespace weft
