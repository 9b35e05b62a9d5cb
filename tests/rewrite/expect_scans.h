#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "interp/interpreter.h"
#include "tests/graph/random_graph.h"
#include "tests/rewrite/expect_rewrite.h"

namespace weft {

/// The pass leaves as many scans, and every bit of the outputs.
inline void expect_scans(const std::function<bool(Graph&)>& pass, const std::string& text,
                         int scans) {
  SCOPED_TRACE(text);
  Graph graph = parsed(text);
  const std::vector<HostTensor> inputs = random_inputs(graph, 7, false);
  const auto expected = interpret(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  EXPECT_TRUE(pass(graph));
  const Status status = verify_graph(graph);
  ASSERT_TRUE(status.ok()) << status.error().message << print(graph);
  EXPECT_EQ(std::ranges::count(graph.nodes, GraphOp::kScan, &Node::op), scans) << print(graph);
  EXPECT_FALSE(pass(graph));
  const auto actual = interpret(graph, inputs);
  ASSERT_TRUE(actual.ok()) << actual.error().message << print(graph);
  EXPECT_EQ(difference(*actual, *expected), "") << print(graph);
}

}  // namespace weft
