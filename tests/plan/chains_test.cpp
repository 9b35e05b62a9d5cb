// Contractions of which one reduces what another made, as one kernel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/generators/chains.h"
#include "tests/graph_texts.h"
#include "tests/plan/planned.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

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
  ASSERT_EQ(plan.kernels.size(), 2U) << print(plan, p);
  EXPECT_THAT(summary(plan.kernels[0], p), StartsWith("q: compute contract"));
  EXPECT_THAT(summary(plan.kernels[1], p), StartsWith("s, m, d, e, l, p, c, y: compute chain of"));
  EXPECT_THAT(plan.edges.back().reason, HasSubstr("a chain takes"));
  // What a thread keeps does not grow with the rows' length: a step's scores, not all of them.
  EXPECT_LT(plan.kernels[1].schedule.scopes.block_bytes, 2048 * 64 * 4);
  EXPECT_EQ(print(*parse_plan(print(plan, p), p, target), p), print(plan, p));
}

TEST(Chains, AreMadeByDefaultOfWhatDoesNotStayInCaches) {
  const TensorProgram p = expressed(kLongRows);
  Target target = *find_target("x86-64-v3");
  // Scores and weights are 16 MB each.
  target.l3_bytes = 66 << 20;
  EXPECT_EQ(groups_of(plan_of(p, target, "auto")), 4U);
  target.l3_bytes = 32 << 20;
  const FusionPlan plan = plan_of(p, target, "auto");
  ASSERT_EQ(groups_of(plan), 2U) << print(plan, p);
  EXPECT_THAT(summary(plan.kernels[0], p),
              AllOf(StartsWith("q | s, m, d, e, l, p, c, y: compute"), HasSubstr("| chain of")));
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
