#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Removes the nodes whose results nothing reads and that are no output, with their values, in
/// regions too. Inputs stay.
///
/// Requires: a verified graph.
/// Establishes: each node has a result that is read or an output.
///     a = neg x; b = exp x; -> b   ->   b = exp x; -> b
/// Returns whether the graph changed.
bool remove_dead_nodes(Graph& graph);

}  // namespace weft
