#include <gtest/gtest.h>

#include "interp/interpreter.h"
#include "rewrite/fold_constants.h"
#include "rewrite/hoist_invariants.h"
#include "rewrite/inline_constant_if.h"
#include "rewrite/merge_equal_nodes.h"
#include "rewrite/narrow_regions.h"
#include "rewrite/remove_dead_nodes.h"
#include "rewrite/simplify_graph.h"
#include "rewrite/unite_scans.h"
#include "rewrite/unroll_scans.h"
#include "tests/graph/random_graph.h"

namespace weft {
namespace {

struct NamedPass {
  const char* name;
  bool (*run)(Graph&);
  int at_least = 10;  ///< of 400 graphs that it changes
};

bool fold(Graph& graph) { return fold_constants(graph, 256); }
bool hoist(Graph& graph) { return hoist_invariants(graph, 1); }
bool narrow(Graph& graph) { return narrow_regions(graph, 64); }
bool unroll(Graph& graph) { return unroll_scans(graph, 3); }

constexpr NamedPass kPasses[] = {
    {"fold_constants", fold},
    {"remove_dead_nodes", remove_dead_nodes},
    {"merge_equal_nodes", merge_equal_nodes},
    {"simplify_graph", simplify_graph},
    {"inline_constant_if", inline_constant_if},
    {"narrow_regions", narrow},
    {"unroll_scans", unroll},
    {"unite_scans", unite_scans, 2},
    {"hoist_invariants", hoist, 2},
};

std::string whole_text(const Graph& graph) {
  return print(graph, {.max_inline_elements = 1 << 20});
}

/// Runs the pass and checks what every pass promises; returns whether the graph changed.
bool run_checked(const NamedPass& pass, Graph& graph, const std::vector<HostTensor>& inputs,
                 const std::vector<HostTensor>& expected) {
  const std::string before = whole_text(graph);
  const bool changed = pass.run(graph);
  const std::string after = whole_text(graph);
  const std::string context = std::string(pass.name) + "\n" + before + "\n->\n" + after;
  EXPECT_EQ(changed, before != after) << context;
  const Status status = verify_graph(graph);
  EXPECT_TRUE(status.ok()) << status.error().message << "\n" << context;
  if (!status.ok()) return false;
  const Result<std::vector<HostTensor>> actual = interpret(graph, inputs);
  EXPECT_TRUE(actual.ok()) << context;
  EXPECT_EQ(difference(*actual, expected), "") << context;
  return changed;
}

class RandomRewrite : public ::testing::TestWithParam<NamedPass> {};

TEST_P(RandomRewrite, KeepsEveryBit) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph graph = random_graph(seed);
    const std::vector<HostTensor> inputs = random_inputs(graph, seed);
    const Result<std::vector<HostTensor>> expected = interpret(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    if (!run_checked(GetParam(), graph, inputs, *expected)) continue;
    ++changed;
    for (int round = 0; round < 10 && GetParam().run(graph); ++round) {
      ASSERT_LT(round, 9) << GetParam().name << " does not come to rest\n" << whole_text(graph);
    }
  }
  EXPECT_GE(changed, GetParam().at_least);
}

INSTANTIATE_TEST_SUITE_P(Passes, RandomRewrite, ::testing::ValuesIn(kPasses),
                         [](const auto& pass) { return std::string(pass.param.name); });

TEST(RandomRewrites, InAnyOrderKeepEveryBit) {
  for (uint64_t seed = 1000; seed < 1300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TestRandom random(seed);
    Graph graph = random_graph(seed);
    const std::vector<HostTensor> inputs = random_inputs(graph, seed);
    const std::vector<HostTensor> expected = *interpret(graph, inputs);
    for (int i = 0; i < 12; ++i) {
      run_checked(kPasses[random.between(0, std::size(kPasses) - 1)], graph, inputs, expected);
    }
  }
}

}  // namespace
}  // namespace weft
