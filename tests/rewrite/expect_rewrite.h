#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "graph/graph.h"

namespace weft {

inline Graph parsed(const std::string& text) {
  Result<Graph> graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message) << "\n" << text;
  return graph.ok() ? std::move(*graph) : Graph{};
}

/// The pass turns `before` into `after` (texts of graphs), says so, and leaves that alone.
inline void expect_rewrite(const std::function<bool(Graph&)>& pass, const std::string& before,
                           const std::string& after) {
  Graph graph = parsed(before);
  EXPECT_TRUE(pass(graph));
  EXPECT_EQ(print(graph), print(parsed(after)));
  const Status status = verify_graph(graph);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  EXPECT_FALSE(pass(graph)) << "the pass is not done\n" << print(graph);
}

inline void expect_unchanged(const std::function<bool(Graph&)>& pass, const std::string& text) {
  Graph graph = parsed(text);
  const std::string before = print(graph);
  EXPECT_FALSE(pass(graph));
  EXPECT_EQ(print(graph), before);
}

}  // namespace weft
