#pragma once

#include <cstdint>

#include "rewrite/rewrite.h"

namespace weft {

/// Makes the regions of `if`, `while` and `scan` take and give only what they must, innermost
/// first:
///   - a capture that is a constant of at most `max_constant_bytes`, or a broadcast of one, is made
///   inside instead;
///   - a carry that each trip hands on unchanged becomes a capture;
///   - a stack of the slices that a scan is given, at most reshaped, becomes what they are slices
///   of;
///   - `for_gpu`, a capture of a loop that is made of narrower floats is widened inside: the loop
///   reads, and keeps on chip, fewer bytes, and a GPU widens them as it multiplies;
///   - captures that are the same value become one, captures that the region does not read go;
///   - results of `if` and stacked results of `scan` that nothing reads go.
///
/// Requires: a verified graph.
///     y = if c, x, k region (a, b) { d = add a, b } -> (d) …  with k = constant 2
///       ->   y = if c, x region (a) { b = constant 2; d = add a, b } -> (d) …
/// Returns whether the graph changed.
bool narrow_regions(Graph& graph, int64_t max_constant_bytes, bool for_gpu = false);

}  // namespace weft
