#include <gtest/gtest.h>

#include "expr/movement/compose_arithmetic.h"
#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "expr/movement/sink_movement.h"
#include "expr/movement/split_axes.h"
#include "expr/products/merge_products.h"
#include "expr/products/part_products.h"
#include "tests/expr/expr_testing.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/random_graph_inl.h"

namespace weft {
namespace {

/// One program through every pass, compared with the interpreter after each.
void check_passes(uint64_t seed, const RandomGraphOptions& options) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Graph graph = random_graph(seed, options);
  const std::vector<HostTensor> inputs = random_inputs(graph, seed + 7, options.special_values);
  const Result<std::vector<HostTensor>> expected = interpret(graph, inputs, 1000);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  TensorProgram program = expressed(graph);
  SCOPED_TRACE(print(graph));
  expect_computes(program, inputs, *expected);
  if (testing::Test::HasFailure()) return;
  expect_round_trip(program);
  SCOPED_TRACE(print(program));
  fold_movement(program, {.joins_pieces = seed % 2 == 1});
  expect_computes(program, inputs, *expected);
  if (testing::Test::HasFailure()) return;
  SCOPED_TRACE(print(program));
  compose_arithmetic(program, 2);
  expect_computes(program, inputs, *expected);
  if (testing::Test::HasFailure()) return;
  SCOPED_TRACE(print(program));
  split_axes(program);
  expect_computes(program, inputs, *expected);
  if (testing::Test::HasFailure()) return;
  SCOPED_TRACE(print(program));
  sink_movement(program);
  expect_computes(program, inputs, *expected);
  merge_products(program);
  expect_computes(program, inputs, *expected);
  part_products(program, 1);
  expect_computes(program, inputs, *expected);
  remove_dead_expressions(program);
  expect_round_trip(program);
  expect_computes(program, inputs, *expected);
}

TEST(RandomPrograms, PassesKeepWhatIsComputed) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    check_passes(seed, {.special_values = false});
    if (HasFailure()) return;
  }
}

TEST(RandomPrograms, SpecialValuesSurvive) {
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    check_passes(seed, {.control_flow = false});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft
