#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Removes what does nothing and joins what is one step, keeping every result bit for bit (a
/// signalling NaN may become quiet), in regions too.
///
/// Requires: a verified graph.
/// Establishes: no reshape, transpose, slice, pad, broadcast, concat or convert that leaves its
/// operand as it is; no chain of two of a kind; no gather with constant indices in arithmetic
/// progression (a slice); no double negation, product with 1, select on a constant, division by a
/// power of two (a product), float32 square by pow (a product).
///     b = transpose a {1,0}; c = transpose b {1,0}   ->   c is a
///     b = concat x, y;       c = slice b inside x    ->   c = slice x
///     c = concat (slice x of 0 to 2), (slice x of 2 to 5)   ->   c = slice x of 0 to 5
/// Sums with +0 stay for floats: -0 + +0 is +0.
/// Returns whether the graph changed.
bool simplify_graph(Graph& graph);

}  // namespace weft
