#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Puts scans of as many steps that do not depend on each other (directions of a recurrence, heads,
/// towers) into one, whose steps run the bodies of all of them: these then share what a step costs.
/// Each slice keeps its direction.
///
/// Requires: a verified graph.
///     hs = scan h0, xs, w (f); gs = scan g0, zs, w (g)      of T steps each
///       ->   hs, gs = scan h0, g0, xs, zs, w
///              region (h, g, x, z, w): h' = f(h, x, w); g' = g(g, z, w) -> (h', g', h', g')
/// Returns whether the graph changed.
bool unite_scans(Graph& graph);

}  // namespace weft
