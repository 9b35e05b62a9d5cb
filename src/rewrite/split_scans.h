#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Splits scans whose steps hold recurrences that read each other in one direction, as layers of a
/// cell do, into a scan for each: loop distribution. A layer's weights then stay near for all of
/// its steps, the products of what the layer below stacks are known before the first of them
/// (hoist_from_scans), and layers may run as a wavefront (skew_scans).
///
/// A recurrence is a set of nodes that depend on each other through carries, with a contraction
/// among them. What is accumulated beside one stays with it; what only a later one reads goes
/// there.
///     h, g, ys = scan h0, g0, xs (region (h, g, x) -> (a = f(h, x), b = f(g, a), y=b))
///       ->   h, as = scan h0, xs (region (h, x) -> (a = f(h, x), y=a))
///            g, ys = scan g0, as (region (g, a) -> (b = f(g, a), y=b))
///
/// Requires: a verified graph.
/// Establishes: no scan's region holds two such recurrences one of which reads the other, but where
/// what they hand on would be larger than 256 MB, or a carry is no node's result.
/// Returns whether the graph changed.
bool split_scans(Graph& graph);

}  // namespace weft
