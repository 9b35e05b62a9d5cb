#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Computes before a scan what its region computes anew in each step from captures alone: weights
/// that a cell joins (a recurrence of JAX joins those of its gates in each step), scales or masks.
///     ys = scan h0, xs, u, v (region (h, x, u, v) -> (f(h · concat(u, v), x)))
///       ->   w = concat(u, v); ys = scan h0, xs, w (region (h, x, w) -> (f(h · w, x)))
/// Only what has `least_bytes`, no more bytes than the captures it is made of, and is more than
/// their elements in another order or type: the rest is read as cheaply where it is used.
///
/// Requires: a verified graph.
/// Establishes: no scan's region holds such a value.
/// Returns whether the graph changed.
bool hoist_invariants(Graph& graph, int64_t least_bytes);

}  // namespace weft
