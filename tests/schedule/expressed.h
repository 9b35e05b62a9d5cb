#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "expr/express/express.h"
#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "schedule/schedule.h"

namespace weft {

/// The tensor program of a graph's text, movement folded.
inline TensorProgram expressed(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  auto program = express(*graph);
  EXPECT_TRUE(program.ok()) << program.error().message;
  fold_movement(*program);
  remove_dead_expressions(*program);
  return std::move(*program);
}

/// All expressions of a program as one kernel.
inline Group whole_group(const TensorProgram& program) {
  Group group;
  for (size_t e = 0; e < program.exprs.size(); ++e) group.exprs.push_back(static_cast<ExprId>(e));
  group.outputs = program.outputs;
  return group;
}

/// Whether a template holds the group, or why not.
inline Decision is_leaf(const TensorProgram& program, const Group& group, const Target& target) {
  const auto space = GroupSpace::of(program, group, target);
  return space.ok() ? can_be_leaf(*space, target) : Decision::forbid(space.error().message);
}

}  // namespace weft
