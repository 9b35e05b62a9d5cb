#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Turns chains of at least four isomorphic pieces around contractions with a common weight, each
/// fed by the one before, into a `scan`: the inverse of unroll_scans. What a piece makes is a
/// carry, or stacked; what differs from piece to piece is stacked and scanned, without a copy where
/// the pieces read slices of one tensor. The innermost recurrence of a nest comes first (time
/// within layers).
///
/// Requires: a verified graph, equal nodes merged.
/// Establishes: each such chain is a scan; a first or last piece of another form stays outside.
///     h1 = f(h0, x[0], w); h2 = f(h1, x[1], w); …   ->   h, ys = scan h0, x, w (region f)
/// Returns whether the graph changed.
bool roll_loops(Graph& graph);

/// The same but for layers: pieces that multiply by constants of their own, which in a loop would
/// be parts of one tensor, and no longer constants that a kernel may lay out.
bool roll_steps(Graph& graph);

}  // namespace weft
