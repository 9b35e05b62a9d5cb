#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Merges nodes that compute the same: same op, attributes (constants by their bytes), operands,
/// result types and regions. In regions too; across a region's border nothing merges.
///
/// Requires: a verified graph.
/// Establishes: no two nodes of one graph are equal.
///     a = exp x; b = exp x; y = add a, b   ->   a = exp x; y = add a, a
/// Returns whether the graph changed.
bool merge_equal_nodes(Graph& graph);

}  // namespace weft
