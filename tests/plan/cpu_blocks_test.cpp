// Blocks of stages that auto makes on a CPU, and those that it leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/planned.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Target target() { return *find_target("x86-64-v3"); }

std::vector<std::string> edges_of(const FusionPlan& plan, const TensorProgram& program) {
  std::vector<std::string> out;
  for (const EdgeDecision& edge : plan.edges) out.push_back(summary(edge, program));
  return out;
}

/// Rows normed by their largest element, then multiplied by a few columns: read once, not twice.
const char* const kNormedProduct = R"((x: f32[50000,200], w: f32[200,6]) {
  m = reduce x, axes={1}, combiner=max : f32[50000]
  mb = broadcast m, dims={0} : f32[50000,200]
  n = div x, mb : f32[50000,200]
  y = dot_general n, w, lhs_contract={1}, rhs_contract={0} : f32[50000,6]
} -> (y))";

TEST(CpuBlocks, AreMadeWhereTheySave) {
  const TensorProgram p = expressed(kNormedProduct);
  const FusionPlan plan = plan_of(p, target());
  ASSERT_EQ(plan.kernels.size(), 1U) << print(plan, p);
  EXPECT_THAT(summary(plan.kernels[0], p), StartsWith("m, n, y: compute stages: rows, contract"));
  EXPECT_THAT(edges_of(plan, p).back(), HasSubstr("n: fused, blocks of stages save"));
  EXPECT_EQ(plan_of(p, target(), "auto", "gain=1").kernels.size(), 1U)
      << "what does not stay in the caches is kept whatever it saves";
}

/// What lanes hold beside each other would be stored 16 KB apart: the result is turned behind it.
TEST(CpuBlocks, ProductsAreNotStoredAcross) {
  const TensorProgram p = expressed(R"((x: f32[4096,64], w: f32[64,64]) {
  y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[4096,64]
  t = transpose y, permutation={1,0} : f32[64,4096]
  z = tanh t : f32[64,4096]
} -> (z))");
  const FusionPlan plan = plan_of(p, target(), "greedy");
  EXPECT_EQ(plan.kernels.size(), 2U) << print(plan, p);
}

/// The product takes a hundred times as long as its rows and all that moves between them.
TEST(CpuBlocks, AreNotBuiltWhereTheyCannotSave) {
  const TensorProgram p = expressed(R"((x: f32[256,768], w: f32[768,3072]) {
  m = reduce x, axes={1}, combiner=max : f32[256]
  mb = broadcast m, dims={0} : f32[256,768]
  n = div x, mb : f32[256,768]
  y = dot_general n, w, lhs_contract={1}, rhs_contract={0} : f32[256,3072]
} -> (y))");
  const FusionPlan plan = plan_of(p, target());
  EXPECT_EQ(groups_of(plan), 2U) << print(plan, p);
  EXPECT_THAT(edges_of(plan, p).back(), testing::ContainsRegex("as blocks of stages: they save "
                                                               "[0-9.]+ us of [0-9.]+ us at most"));
}

/// Attention whose scores stay in the caches: quicker by less than predictions are off, so that
/// what has to be saved decides.
TEST(CpuBlocks, AreLeftWherePredictionsAreAlike) {
  const TensorProgram p = expressed(R"((q: f32[4,96,32], k: f32[4,131,32], v: f32[4,131,32]) {
  t = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[4,96,131]
  m = reduce t, axes={2}, combiner=max : f32[4,96]
  mb = broadcast m, dims={0,1} : f32[4,96,131]
  d = sub t, mb : f32[4,96,131]
  e = exp d : f32[4,96,131]
  y = dot_general e, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[4,96,32]
} -> (y))");
  const size_t all = groups_of(plan_of(p, target(), "auto", "gain=0"));
  const size_t some = groups_of(plan_of(p, target(), "auto", "gain=0.07"));
  const size_t usual = groups_of(plan_of(p, target()));
  EXPECT_EQ(all, 1U);
  EXPECT_EQ(some, 2U);
  EXPECT_EQ(usual, 3U);
}

}  // namespace
}  // namespace weft
