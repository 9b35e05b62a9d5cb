#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "plan/generators/exploration.h"
#include "plan/generators/layers.h"
#include "plan/generators/pattern_reduction.h"
#include "plan/generators/subgraphs.h"
#include "plan/generators/substitution.h"
#include "plan/selectors/beam_search.h"
#include "plan/selectors/merge_patterns.h"
#include "plan/selectors/select_by_ilp.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Members = std::vector<int>;

/// Each merge gains a microsecond, and all are legal.
PatternRule any_rule() {
  PatternRule rule;
  rule.legal = [](const Group&) { return Decision::allow(); };
  rule.gain = [](const std::vector<Group>& parts, const Group&) {
    return static_cast<double>(parts.size()) - 1;
  };
  return rule;
}

std::vector<Members> members(const std::vector<Pattern>& patterns) {
  std::vector<Members> out;
  for (const Pattern& p : patterns) out.push_back(p.groups);
  return out;
}

constexpr const char* kDiamond = R"((x: f32[64,100]) {
  a = exp x : f32[64,100]
  b = neg a : f32[64,100]
  c = abs a : f32[64,100]
  d = add b, c : f32[64,100]
} -> (d))";

TEST(PatternReduction, ReachesThroughReadersToConvexPatterns) {
  const TensorProgram p = expressed(kDiamond);
  const auto found = reduce_patterns(FusionGraph(p), any_rule(), 3);
  ASSERT_EQ(found.size(), 4u);
  // Neither {a, b, d} nor {a, c, d}: c and b would lie between.
  EXPECT_THAT(members(found[0]), ElementsAre(Members{0, 1, 2, 3}, Members{0, 1, 2}, Members{0, 1}));
  EXPECT_THAT(members(found[1]), ElementsAre(Members{1, 3}));
  EXPECT_THAT(found[3], IsEmpty());
  EXPECT_EQ(found[0][0].gain_us, 3);
}

TEST(PatternReduction, KeepsWhatIsLegalAndGains) {
  const TensorProgram p = expressed(kDiamond);
  PatternRule rule = any_rule();
  rule.legal = [](const Group& group) {
    return group.exprs.size() == 3 ? Decision::forbid("three") : Decision::allow();
  };
  EXPECT_THAT(members(reduce_patterns(FusionGraph(p), rule, 3)[0]),
              ElementsAre(Members{0, 1, 2, 3}, Members{0, 1}, Members{0, 2}));
  rule.most_expressions = 3;
  EXPECT_THAT(members(reduce_patterns(FusionGraph(p), rule, 1)[0]), ElementsAre(Members{0, 1}));
  rule.gain = [](const std::vector<Group>&, const Group&) { return 0.0; };
  EXPECT_THAT(reduce_patterns(FusionGraph(p), rule, 3)[0], IsEmpty());
}

/// Lengths of the longest paths to a result; of groups, too.
TEST(Layers, AreDistancesFromResults) {
  const TensorProgram p = expressed(kDiamond);
  FusionGraph graph(p);
  EXPECT_THAT(spans_of(graph), ElementsAre(2, 1, 1, 0));
  EXPECT_THAT(layers_of(spans_of(graph)), ElementsAre(Members{3}, Members{1, 2}, Members{0}));
  const int both = graph.merge(1, 2);
  EXPECT_EQ(spans_of(graph)[static_cast<size_t>(both)], 1);
  EXPECT_EQ(spans_of(graph)[static_cast<size_t>(3 - both)], -1);
}

/// Five readers: halves of two and three, and unions across them.
TEST(PatternReduction, UnitesTheHalvesOfManyReaders) {
  std::string text = "(x: f32[8]) {\n  a = exp x : f32[8]\n", outputs = "a";
  for (const char* r : {"b", "c", "d", "e", "f"}) {
    text += std::string("  ") + r + " = neg a : f32[8]\n";
    outputs += std::string(", ") + r;
  }
  const TensorProgram p = expressed(text + "} -> (" + outputs + ")");
  EXPECT_EQ(reduce_patterns(FusionGraph(p), any_rule(), 3)[0][0].groups,
            (Members{0, 1, 2, 3, 4, 5}));
  PatternRule rule = any_rule();
  rule.most_expressions = 3;
  const auto found = reduce_patterns(FusionGraph(p), rule, 3);
  ASSERT_EQ(found[0].size(), 3u);
  for (const Pattern& q : found[0]) EXPECT_EQ(q.groups.size(), 3u);
}

/// What begins at two inputs is one pattern, which none that begins at one expression is.
TEST(Subgraphs, BeginInSeveralPlaces) {
  const TensorProgram p = expressed(R"((x: f32[8], z: f32[8]) {
  a = exp x : f32[8]
  b = neg z : f32[8]
  y = add a, b : f32[8]
} -> (y))");
  const FusionGraph graph(p);
  for (const auto& own : reduce_patterns(graph, any_rule(), 8))
    EXPECT_THAT(members(own), ::testing::Not(::testing::Contains(Members{0, 1, 2})));
  const auto found = find_subgraphs(p, graph, any_rule());
  EXPECT_THAT(members(found[0]), ElementsAre(Members{0, 1, 2}));
  EXPECT_EQ(found[0][0].gain_us, 2);
  EXPECT_THAT(found[1], IsEmpty());
}

/// Nothing hands anything on here: one input is read once for all.
TEST(Subgraphs, HoldReadersOfOneInput) {
  const TensorProgram p = expressed(R"((x: f32[8]) {
  a = exp x : f32[8]
  b = neg x : f32[8]
} -> (a, b))");
  EXPECT_THAT(members(find_subgraphs(p, FusionGraph(p), any_rule())[0]),
              ElementsAre(Members{0, 1}));
}

/// d is met before c, which stands between it and a: it joins behind c.
TEST(Subgraphs, JoinBehindWhatStoodBetween) {
  const TensorProgram p = expressed(R"((x: f32[8]) {
  a = exp x : f32[8]
  b = neg a : f32[8]
  c = abs b : f32[8]
  d = add a, c : f32[8]
} -> (d))");
  EXPECT_THAT(members(find_subgraphs(p, FusionGraph(p), any_rule())[0]),
              ElementsAre(Members{0, 1, 2, 3}));
}

/// On both sides of a product, and no expression in two of them.
TEST(Subgraphs, EndAtProducts) {
  const TensorProgram p = expressed(R"((x: f32[8,8]) {
  a = exp x : f32[8,8]
  b = neg a : f32[8,8]
  c = dot_general b, b, lhs_contract={1}, rhs_contract={0} : f32[8,8]
  d = abs c : f32[8,8]
  e = exp d : f32[8,8]
} -> (e))");
  const FusionGraph graph(p);
  const auto found = find_subgraphs(p, graph, any_rule());
  EXPECT_THAT(members(found[0]), ElementsAre(Members{0, 1}));
  EXPECT_THAT(members(found[3]), ElementsAre(Members{3, 4}));
  PatternRule small = any_rule();
  small.most_expressions = 1;
  for (const auto& own : find_subgraphs(p, graph, small)) EXPECT_THAT(own, IsEmpty());
}

Pattern pattern(Members groups, double gain) { return {std::move(groups), gain, {}}; }

TEST(BeamSearch, KeepsTheBestSetsOfDisjointPatterns) {
  const std::vector<std::vector<Pattern>> candidates = {
      {pattern({0, 1, 2, 3}, 6), pattern({0, 1}, 5)}, {}, {pattern({2, 3}, 4)}, {}};
  const auto narrow = beam_search(candidates, 1);
  ASSERT_EQ(narrow.size(), 1u);
  EXPECT_THAT(members(narrow[0]), ElementsAre(Members{0, 1, 2, 3}));
  const auto wide = beam_search(candidates, 3);
  ASSERT_EQ(wide.size(), 3u);
  EXPECT_THAT(members(wide[0]), ElementsAre(Members{0, 1}, Members{2, 3}));
  EXPECT_THAT(members(wide[1]), ElementsAre(Members{0, 1, 2, 3}));
}

/// {a, b} and {c, d} are convex, but each reads from the other.
TEST(MergePatterns, LeavesOutWhatWouldWaitForItself) {
  const TensorProgram p = expressed(R"((x: f32[8], y: f32[8]) {
  a = exp x : f32[8]
  c = exp y : f32[8]
  b = add a, c : f32[8]
  d = sub c, a : f32[8]
} -> (b, d))");
  FusionGraph graph(p);
  ASSERT_TRUE(graph.is_convex(std::array{0, 2}));
  ASSERT_TRUE(graph.is_convex(std::array{1, 3}));
  const auto merged = merge_patterns({pattern({0, 2}, 1), pattern({1, 3}, 1)}, graph);
  EXPECT_THAT(members(merged), ElementsAre(Members{0, 2}));
  EXPECT_EQ(graph.groups().size(), 3u);
}

/// Rows, columns, one number, and a product between: each step of the partition adds patterns.
TEST(Substitution, PartitionsByMoreAndMore) {
  const TensorProgram p = expressed(R"((x: f32[8,16], w: f32[16,16]) {
  a = exp x : f32[8,16]
  r = reduce a, axes={1}, combiner=sum : f32[8]
  b = neg r : f32[8]
  c = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[8,16]
  d = exp c : f32[8,16]
  e = reduce d, axes={0}, combiner=sum : f32[16]
  f = neg e : f32[16]
} -> (b, f))");
  const FusionGraph graph(p);
  const PatternRule rule = any_rule();
  CollectedPatterns patterns(graph, rule);
  substitute(p, graph, /*large_flops=*/1 << 24, patterns);
  // Before the small product partitions all is one pattern; then what lies before and behind it,
  // and what stands behind it with it; then columns partition, at last rows.
  EXPECT_THAT(members(patterns.all()),
              ElementsAre(Members{0, 1, 2, 3, 4, 5, 6}, Members{0, 1, 2}, Members{3, 4, 5, 6},
                          Members{4, 5, 6}, Members{3, 4}, Members{5, 6}, Members{1, 2}));
}

TEST(Exploration, GrowsSeedsByProducersAndConsumers) {
  const TensorProgram p = expressed(kDiamond);
  const FusionGraph graph(p);
  const PatternRule rule = any_rule();
  CollectedPatterns patterns(graph, rule);
  explore(p, graph, {}, patterns);
  EXPECT_THAT(members(patterns.all()), ::testing::Contains(Members{0, 1, 2, 3}));
  EXPECT_THAT(members(patterns.all()), ::testing::Contains(Members{0, 2}));
  // Not convex.
  EXPECT_THAT(members(patterns.all()), ::testing::Not(::testing::Contains(Members{0, 1, 3})));
  CollectedPatterns few(graph, rule);
  explore(p, graph, {.patterns_of_seed = 1}, few);
  EXPECT_LE(few.all().size(), 4u);
  CollectedPatterns none(graph, rule);
  explore(p, graph, {.least_bytes = 1 << 20}, none);
  EXPECT_THAT(none.all(), IsEmpty());
}

/// {a, b} and {c, d} gain most and wait for each other: the cut leaves the next best set.
TEST(SelectByIlp, CutsCyclesAndSolvesAgain) {
  const TensorProgram p = expressed(R"((x: f32[8], y: f32[8]) {
  a = exp x : f32[8]
  c = exp y : f32[8]
  b = add a, c : f32[8]
  d = sub c, a : f32[8]
} -> (b, d))");
  const FusionGraph graph(p);
  const std::vector<Pattern> candidates = {pattern({0, 2}, 5), pattern({1, 3}, 4),
                                           pattern({0, 3}, 3)};
  EXPECT_EQ(find_cycle(graph, {candidates[0], candidates[1]}).size(), 2u);
  EXPECT_THAT(find_cycle(graph, {candidates[0]}), IsEmpty());
  const auto selection = select_by_ilp(graph, candidates);
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_THAT(members(selection->patterns), ElementsAre(Members{0, 2}));
  EXPECT_EQ(selection->cuts, 1);
  EXPECT_DOUBLE_EQ(selection->gain_us, 5);
  EXPECT_DOUBLE_EQ(selection->bound_us, 5);
}

/// Greedily the middle one alone.
TEST(SelectByIlp, IsOptimal) {
  const TensorProgram p = expressed(kDiamond);
  const auto selection =
      select_by_ilp(FusionGraph(p), {pattern({0, 1}, 4), pattern({1, 2}, 5), pattern({2, 3}, 4)});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_THAT(members(selection->patterns), ElementsAre(Members{0, 1}, Members{2, 3}));
}

/// What is of one shape and hands each other nothing.
TEST(MergePatterns, MergesRemoteGroupsOfOneShape) {
  const TensorProgram p = expressed(R"((x: f32[8], y: f32[8], z: f32[9]) {
  a = exp x : f32[8]
  b = neg y : f32[8]
  c = abs z : f32[9]
} -> (a, b, c))");
  FusionGraph graph(p);
  merge_remote(p, any_rule(), 3, graph);
  ASSERT_EQ(graph.groups().size(), 2u);
  EXPECT_EQ(graph.group_of(0), graph.group_of(1));
  EXPECT_EQ(graph.readers(p.exprs[0].output).size(), 0u);
}

}  // namespace
}  // namespace weft
