#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Moves contractions that depend on no carry out of the regions of scans, with what feeds them and
/// the arithmetic behind them: all steps in one, an axis more (the input's product of a recurrence
/// is then one product of all steps, whose weights are read once).
///
/// Requires: a verified graph.
/// Establishes: no scan's region holds such a contraction, but where its results for all steps
/// would be larger than 256 MB or where an operation has no form with one more axis.
///     ys = scan h0, xs, w, u (region (h, x) -> (f(x·w, h·u)))
///       ->   p = xs·w; ys = scan h0, p, u (region (h, q) -> (f(q, h·u)))
/// Returns whether the graph changed.
bool hoist_from_scans(Graph& graph);

}  // namespace weft
