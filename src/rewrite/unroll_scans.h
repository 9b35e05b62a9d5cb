#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Replaces each `scan` of at most `max_trips` trips by that many copies of its region: slices of
/// the scanned operands in, a concat of the stacked results out. In regions too. A scan whose
/// copies would make more than 2^20 nodes stays.
///
/// Requires: a verified graph.
/// Establishes: no scan of so few trips is left, but for those larger ones.
///     h, ys = scan h0, xs (2 trips, region (h, x) -> (n, n))
///       ->   x0 = reshape(slice xs 0); n0 = …; x1 = reshape(slice xs 1); n1 = …; ys = concat n0,
///       n1
/// Returns whether the graph changed.
bool unroll_scans(Graph& graph, int64_t max_trips);

}  // namespace weft
