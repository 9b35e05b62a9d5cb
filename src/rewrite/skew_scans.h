#pragma once

#include "rewrite/rewrite.h"

namespace weft {

/// Puts scans of which each reads, step by step, what the one before stacks (layers of a
/// recurrence) into one, in which each layer runs a step behind the one below it: a wavefront
/// (Souffle §6.3). What lies between two layers (their input's product) is computed step by step,
/// too. In the first and last steps, where a layer has none of its own, what it carries stays.
///
/// Requires: a verified graph.
///     ys = scan h0, xs, w (f); zs = ys·u; vs = scan g0, zs, v (g)      of T steps each
///       ->   _, _, _, all = scan h0, g0, 0, on_f, on_g, xs padded, w, u, v    of T + 1 steps
///              region (h, g, y, on_f, on_g, x, …): h' = on_f ? f(h, x) : h;
///                g' = on_g ? g(g, y·u) : g; y' = h' -> (h', g', y', v)
///            vs = all from its second step on
/// Returns whether the graph changed.
bool skew_scans(Graph& graph);

}  // namespace weft
