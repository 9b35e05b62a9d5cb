#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Integers that a scan carries from a constant on in equal steps become slices of what they will
/// be: what they index, as the counter of an exported loop does, depends on no carry then, and can
/// be known before the first step (hoist_from_scans).
///     i, h = scan i0, h0, xs (region (i, h, x) -> (i + 2, f(h, w[i])))
///       ->   h = scan h0, xs, {i0, i0 + 2, …} (region (h, x, i) -> (f(h, w[i])))
///
/// Requires: a verified graph.
/// Establishes: no scan carries such an integer, but where it would leave its type.
/// Returns whether the graph changed.
bool number_steps(Graph& graph);

}  // namespace weft
