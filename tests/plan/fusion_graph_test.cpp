#include "plan/fusion_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "plan/order_kernels.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Step i makes vi of two earlier ones, at most `reach` before it; each seventh is opaque.
TensorProgram random_program(int count, int reach, unsigned seed) {
  std::mt19937 random(seed);
  std::string text = "(x: f32[4]) {\n", outputs;
  for (int i = 0; i < count; ++i) {
    const auto earlier = [&] {
      const int back = 1 + static_cast<int>(random() % static_cast<unsigned>(reach));
      return back > i ? std::string("x") : "v" + std::to_string(i - back);
    };
    const std::string n = std::to_string(i);
    text += i % 7 == 6 ? "  v" + n + ", i" + n + " = sort " + earlier() +
                             ", axis=0, descending=false : f32[4], i64[4]\n"
                       : "  v" + n + " = add " + earlier() + ", " + earlier() + " : f32[4]\n";
    outputs += (i == 0 ? "v" : ", v") + n;
  }
  return expressed(text + "} -> (" + outputs + ")");
}

/// The same by full search: the group of each step, named as the first of those that merged.
struct Oracle {
  const TensorProgram& program;
  std::vector<int> group_of;
  std::vector<std::set<int>> readers;  ///< of each step

  explicit Oracle(const TensorProgram& p) : program(p), readers(p.steps.size()) {
    const TensorUses uses = tensor_uses(p);
    for (size_t s = 0; s < p.steps.size(); ++s) group_of.push_back(static_cast<int>(s));
    for (size_t t = 0; t < p.tensors.size(); ++t) {
      if (uses.producer[t] < 0) continue;
      readers[static_cast<size_t>(uses.producer[t])].insert(uses.consumers[t].begin(),
                                                            uses.consumers[t].end());
    }
  }
  std::set<int> reached(const std::set<int>& from) const {
    std::set<int> out;
    std::vector<int> work(from.begin(), from.end());
    while (!work.empty()) {
      const int g = work.back();
      work.pop_back();
      for (size_t s = 0; s < readers.size(); ++s) {
        if (group_of[s] != g) continue;
        for (const int reader : readers[s]) {
          const int next = group_of[static_cast<size_t>(reader)];
          if (next != g && out.insert(next).second) work.push_back(next);
        }
      }
    }
    return out;
  }
  /// What a path passes that leaves these groups and comes back.
  std::set<int> between(const std::set<int>& groups) const {
    std::set<int> out;
    for (const int g : reached(groups)) {
      if (groups.contains(g)) continue;
      const std::set<int> behind = reached({g});
      if (std::ranges::any_of(groups, [&](int i) { return behind.contains(i); })) out.insert(g);
    }
    return out;
  }
  void merge(int a, int b) { std::ranges::replace(group_of, b, a); }
  int first_step(int group) const {
    return static_cast<int>(std::ranges::find(group_of, group) - group_of.begin());
  }
  std::string name_of(int group) const {
    const TensorProgram::Step& step = program.steps[static_cast<size_t>(first_step(group))];
    if (step.opaque) return "an opaque step";
    const TensorId made = program.exprs[static_cast<size_t>(step.index)].output;
    return program.tensors[static_cast<size_t>(made)].name;
  }
  /// Of each group that is no opaque step, what it makes; in the order of their names.
  std::vector<std::vector<ExprId>> groups() const {
    std::map<int, std::vector<ExprId>> made;
    for (size_t s = 0; s < group_of.size(); ++s) {
      if (!program.steps[s].opaque) made[group_of[s]].push_back(program.steps[s].index);
    }
    std::vector<std::vector<ExprId>> out;
    for (const auto& [name, exprs] : made) out.push_back(exprs);
    return out;
  }
};

struct GraphAndOracle {
  FusionGraph graph;
  Oracle oracle;

  /// Whether both say the same of the groups of these steps, and a reason names what is between.
  bool convex(const std::set<int>& steps) {
    std::set<int> ids, names;
    for (const int s : steps) {
      ids.insert(graph.group_of(s));
      names.insert(oracle.group_of[static_cast<size_t>(s)]);
    }
    const std::vector<int> groups(ids.begin(), ids.end());
    const Decision decision = graph.is_convex(groups);
    const std::set<int> between = oracle.between(names);
    EXPECT_EQ(static_cast<bool>(decision), between.empty()) << decision.reason();
    if (!decision) {
      EXPECT_TRUE(std::ranges::any_of(between, [&](int g) {
        return decision.reason().ends_with("(" + oracle.name_of(g) + ")");
      })) << decision.reason();
    }
    return between.empty();
  }
};

TEST(FusionGraph, SaysAndMergesWhatFullSearchDoes) {
  int refused = 0, merged = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const TensorProgram p = random_program(30 + static_cast<int>(seed), 4 << seed % 5, seed);
    GraphAndOracle both{FusionGraph(p), Oracle(p)};
    std::mt19937 random(seed);
    const auto any_step = [&] { return static_cast<int>(random() % p.steps.size()); };
    for (int i = 0; i < 150; ++i) {
      const int s = any_step(), t = any_step();
      both.convex({s, t, any_step()});
      const int a = both.graph.group_of(s), b = both.graph.group_of(t);
      const bool may = both.convex({s, t});
      refused += !may;
      if (!may || a == b || both.graph.is_opaque(a) || both.graph.is_opaque(b)) continue;
      const Group expected = both.graph.merged(a, b);
      const Group got = both.graph.group(both.graph.merge(a, b));
      EXPECT_EQ(got.exprs, expected.exprs);
      EXPECT_EQ(got.outputs, expected.outputs);
      both.oracle.merge(both.oracle.group_of[static_cast<size_t>(s)],
                        both.oracle.group_of[static_cast<size_t>(t)]);
      ++merged;
    }
    std::vector<std::vector<ExprId>> groups;
    for (const Group& group : both.graph.groups()) groups.push_back(group.exprs);
    EXPECT_EQ(groups, both.oracle.groups()) << "seed " << seed;
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(merged, 500);
}

/// On the path from a to b lies a step behind b, whose reader runs with one before b.
TEST(FusionGraph, SeesAPathThroughAGroupThatBeginsEarlier) {
  const TensorProgram p = expressed(R"((x: f32[4], u: f32[4]) {
    a = exp x : f32[4]
    h = exp u : f32[4]
    b = add h, u : f32[4]
    g = neg a : f32[4]
    k = neg g : f32[4]
  } -> (b, k))");
  FusionGraph graph(p);
  ASSERT_TRUE(graph.is_convex(std::array{1, 4}));
  graph.merge(1, 4);  // h and k: a -> g -> {h, k} -> b
  const Decision decision = graph.is_convex(std::array{0, 2});
  ASSERT_FALSE(decision);
  EXPECT_THAT(decision.reason(), HasSubstr("another kernel lies between them ("));
}

TEST(FusionGraph, StoresWhatOthersReadOrTheModelReturns) {
  const TensorProgram p = expressed(R"((x: f32[4]) {
    a = exp x : f32[4]
    b = neg a : f32[4]
    c = add a, b : f32[4]
  } -> (b, c))");
  FusionGraph graph(p);
  const auto names = [&](const Group& group) {
    std::vector<std::string> out;
    for (const TensorId t : group.outputs) out.push_back(p.tensors[static_cast<size_t>(t)].name);
    return out;
  };
  EXPECT_THAT(names(graph.group(0)), ElementsAre("a"));
  EXPECT_THAT(names(graph.merged(0, 1)), ElementsAre("a", "b"));
  const int all = graph.merge(graph.merge(0, 1), 2);
  EXPECT_THAT(names(graph.group(all)), ElementsAre("b", "c"));
}

/// The greedy walk asks for the nearest producer first.
TEST(FusionGraph, ListsWhatAStepReads) {
  const TensorProgram p = expressed(R"((x: f32[4], u: f32[4]) {
    a = exp x : f32[4]
    b = neg u : f32[4]
    c = add a, b : f32[4]
    d = mul c, a : f32[4]
  } -> (c, d))");
  FusionGraph graph(p);
  const auto producers = [&](int step) {
    std::vector<int> out;
    for (const FusionGraph::Edge& edge : graph.edges_into(step)) out.push_back(edge.producer);
    return out;
  };
  EXPECT_THAT(producers(0), ElementsAre());
  EXPECT_THAT(producers(2), ElementsAre(1, 0));
  EXPECT_THAT(producers(3), ElementsAre(2, 0));
  const TensorId a = p.exprs[0].output;
  EXPECT_THAT(graph.readers(a), ElementsAre(2, 3));
  const int both = graph.merge(2, 3);
  EXPECT_THAT(graph.readers(a), ElementsAre(both));
}

TEST(FusionGraph, CopiesEndWhatNobodyReads) {
  const TensorProgram p = expressed(R"((x: f32[8]) {
  a = exp x : f32[8]
  b = neg a : f32[8]
  c = abs b : f32[8]
  d = neg b : f32[8]
} -> (c, d))");
  FusionGraph graph(p);
  graph.copy_into(2, 1);
  EXPECT_THAT(graph.group(2).exprs, ElementsAre(1, 2));
  EXPECT_THAT(graph.group(1).outputs, ElementsAre(p.exprs[1].output)) << "d reads it still";
  graph.copy_into(3, 1);
  EXPECT_EQ(graph.group_of(1), -1);
  EXPECT_THAT(graph.holders(1), ElementsAre(2, 3));
  EXPECT_THAT(graph.group(3).outputs, ElementsAre(p.exprs[3].output));
  // What two groups read is stored once; it joins the one kernel that they become.
  EXPECT_THAT(graph.group(0).outputs, ElementsAre(p.exprs[0].output));
  const int both = graph.merge(2, 3);
  EXPECT_THAT(graph.group(both).exprs, ElementsAre(1, 2, 3));
  EXPECT_EQ(graph.group_of(1), both);
  graph.copy_into(both, 0);
  EXPECT_EQ(graph.groups().size(), 1u);
}

/// Whatever is merged and copied: every tensor that a group reads and does not make is stored by
/// one group, and the groups have an order.
TEST(FusionGraph, CopiesAndMergesLeaveAnOrderAndOneThatStores) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const TensorProgram p = random_program(36, 9, seed);
    FusionGraph graph(p);
    std::mt19937 random(seed);
    for (int turn = 0; turn < 120; ++turn) {
      const int step = static_cast<int>(random() % p.steps.size());
      if (p.steps[static_cast<size_t>(step)].opaque || graph.group_of(step) < 0) continue;
      const auto& edges = graph.edges_into(step);
      if (edges.empty()) continue;
      const int producer = graph.group_of(edges[random() % edges.size()].producer);
      const int group = graph.group_of(step);
      if (producer < 0 || producer == group || graph.is_opaque(producer)) continue;
      if (random() % 2 == 0) {
        graph.copy_into(group, producer);
      } else if (graph.is_convex(std::array{group, producer})) {
        graph.merge(producer, group);
      }
    }
    const std::vector<Group> groups = graph.groups();
    std::vector<int> held(p.exprs.size(), 0), stored(p.tensors.size(), 0);
    for (const Group& g : groups) {
      for (const ExprId e : g.exprs) ++held[static_cast<size_t>(e)];
      for (const TensorId t : g.outputs) ++stored[static_cast<size_t>(t)];
    }
    for (const Group& g : groups) {
      for (const ExprId e : g.exprs) {
        visit(p.exprs[static_cast<size_t>(e)].body, [&](const Scalar& s) {
          if (s.kind != Scalar::Kind::kRead) return;
          const auto own = [&](ExprId other) {
            return p.exprs[static_cast<size_t>(other)].output == s.symbol;
          };
          const bool of_expr = std::ranges::any_of(
              p.exprs, [&](const TensorExpr& x) { return x.output == s.symbol; });
          if (of_expr && std::ranges::none_of(g.exprs, own))
            EXPECT_EQ(stored[static_cast<size_t>(s.symbol)], 1) << "seed " << seed;
        });
      }
    }
    EXPECT_THAT(held, ::testing::Each(::testing::Ge(1))) << "seed " << seed;
    EXPECT_THAT(stored, ::testing::Each(::testing::Le(1))) << "seed " << seed;
    const auto order = order_kernels(p, groups);
    EXPECT_TRUE(order.ok()) << "seed " << seed << ": " << order.error().message;
  }
}

}  // namespace
}  // namespace weft
