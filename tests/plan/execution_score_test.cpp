// Patterns priced by times that were measured, of libraries made by hand.

#include "plan/execution_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plan/fusion_graph.h"
#include "tests/plan/planned.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kRows = R"((x: f32[64,100]) {
  m = reduce x, axes={1}, combiner=max : f32[64]
  mb = broadcast m, dims={0} : f32[64,100]
  d = sub x, mb : f32[64,100]
  s = reduce d, axes={1}, combiner=sum : f32[64]
} -> (s))";

/// A program whose groups are given by the steps that they hold, with what was measured of them.
class Library {
 public:
  explicit Library(const std::string& graph, Target target = two_cores())
      : program(expressed(graph)), target(std::move(target)), graph_(program) {}

  Group group(const std::vector<int>& steps) const {
    return steps.size() == 1 ? graph_.group(steps[0]) : graph_.merged(steps);
  }
  void add(const std::vector<int>& steps, double us) {
    const Group g = group(steps);
    auto kernel = schedule_group(program, g, target, "k");
    const Composition composition = kernel.ok() ? kernel->composition : Composition{};
    measured.add(GroupKeys(program).of(g).hash, {composition, us, 3, "row"});
  }
  std::optional<double> gain(const std::vector<std::vector<int>>& parts,
                             const std::vector<int>& merged) {
    GroupAnswers answers;
    KnownGroups known(program, target, answers);
    std::vector<Group> groups;
    for (const auto& part : parts) groups.push_back(group(part));
    return ExecutionScore(target, &measured, known).gain_us(groups, group(merged));
  }
  FusionPlan plan(const std::string& planner) const {
    PlanOptions options;
    options.planner = planner;
    options.measured = &measured;
    auto made = plan_fusion(program, target, options);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? std::move(*made) : FusionPlan{};
  }

  TensorProgram program;
  Target target;
  MeasuredCompositions measured;

 private:
  FusionGraph graph_;
};

TEST(ExecutionScore, IsTheMeasuredTimesAndTheLaunches) {
  Library library(kRows);
  library.target.launch_us = 2;
  library.target.barrier_us = 1;
  library.add({0}, 4);
  library.add({1}, 5);
  library.add({2}, 6);
  EXPECT_FALSE(library.gain({{0}, {1}, {2}}, {0, 1, 2})) << "what was not measured";
  library.add({0, 1, 2}, 9);
  EXPECT_DOUBLE_EQ(library.gain({{0}, {1}, {2}}, {0, 1, 2}).value(), 4 + 5 + 6 + 2 * 3 - 9);
  library.add({0, 1, 2}, 7);  // another composition of the same group
  EXPECT_DOUBLE_EQ(library.gain({{0}, {1}, {2}}, {0, 1, 2}).value(), 4 + 5 + 6 + 2 * 3 - 7);
  library.add({0, 1}, 5);
  EXPECT_DOUBLE_EQ(library.gain({{0, 1}, {2}}, {0, 1, 2}).value(), 5 + 6 + 3 - 7);
}

TEST(ExecutionScore, WhatCannotBeGeneratedIsNeverTaken) {
  Library library(R"((x: f32[8,16], w: f32[16,16], v: f32[16,16]) {
  a = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[8,16]
  c = dot_general a, v, lhs_contract={1}, rhs_contract={0} : f32[8,16]
} -> (c))");
  library.add({0}, 4);
  library.add({1}, 5);
  EXPECT_EQ(library.gain({{0}, {1}}, {0, 1}).value(), -INFINITY);
}

/// The model merges all three. What was measured says otherwise, also to what is merged behind the
/// integer program.
TEST(ExecutionScore, DecidesForTheIntegerProgram) {
  Library none(kRows);
  EXPECT_EQ(none.plan("ilp").kernels.size(), 1U);
  const auto with_whole = [&](double us) {
    Library library(kRows);
    for (const int step : {0, 1, 2}) library.add({step}, 1);
    library.add({0, 1}, 1.5);
    library.add({1, 2}, 1.5);
    library.add({0, 1, 2}, us);
    return library.plan("ilp");
  };
  const FusionPlan slow = with_whole(1000);
  EXPECT_EQ(slow.kernels.size(), 2U) << print(slow, none.program);
  std::string reasons;
  for (const EdgeDecision& edge : slow.edges) reasons += edge.reason + "\n";
  EXPECT_THAT(reasons, HasSubstr("measured: one kernel takes 99"));
  const FusionPlan quick = with_whole(0.5);
  ASSERT_EQ(quick.kernels.size(), 1U);
  EXPECT_THAT(quick.edges[0].reason, HasSubstr("by measured times"));
}

/// Other planners go by predictions.
TEST(ExecutionScore, IsAskedByTheIntegerProgramAlone) {
  Library library(kRows);
  for (const int step : {0, 1, 2}) library.add({step}, 1);
  library.add({0, 1}, 1.5);
  library.add({1, 2}, 1.5);
  library.add({0, 1, 2}, 1000);
  EXPECT_EQ(library.plan("greedy").kernels.size(), 1U);
}

}  // namespace
}  // namespace weft
