#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Replaces each `if` whose condition is a constant by the nodes of the branch that it takes, in
/// regions too.
///
/// Requires: a verified graph.
/// Establishes: no `if` has a constant condition.
///     c = constant true; y = if c, x region (a) { b = neg a } -> (b) region …   ->   b = neg x
/// Returns whether the graph changed.
bool inline_constant_if(Graph& graph);

}  // namespace weft
