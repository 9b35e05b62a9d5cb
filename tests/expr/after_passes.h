#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/expr/expr_testing.h"
#include "tests/graph/random_graph.h"

namespace weft {

/// The statements of the program's expressions and outputs, without constants and inputs.
inline std::string statements(const TensorProgram& program) {
  std::string out;
  const std::string text = print(program);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const bool statement =
        line.starts_with("  ") && !line.starts_with("  input ") && !line.starts_with("  constant ");
    if (statement) out += line.substr(2) + "\n";
  }
  return out;
}

using Pass = bool (*)(TensorProgram&);

/// Runs the passes over the expressed graph, compares what it computes, and gives its statements.
inline std::string after(const std::string& graph_text, const std::vector<Pass>& passes) {
  const Graph graph = parsed_graph(graph_text);
  TensorProgram program = expressed(graph);
  for (const Pass pass : passes) pass(program);
  const std::vector<HostTensor> inputs = random_inputs(graph, 3, false);
  const Result<std::vector<HostTensor>> expected = interpret(graph, inputs);
  EXPECT_TRUE(expected.ok());
  if (expected.ok()) expect_computes(program, inputs, *expected);
  expect_round_trip(program);
  return statements(program);
}

}  // namespace weft
