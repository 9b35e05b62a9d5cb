#pragma once

#include <cstdint>

#include "rewrite/rewrite.h"

namespace weft {

/// Replaces each node whose operands are all constants by a constant, in topological order, in
/// regions too.
///
/// Requires: a verified graph.
/// Establishes: no node has only constant operands, unless its result would be larger than
/// `max_bytes` and than its operands together, of broadcasts what they repeat (cheaper to recompute
/// than to load), or it is a `while`, or its evaluation would be long (2^30 products). Up to 16 MiB
/// are stored whatever they are made of where a contraction or a transcendental function reads
/// them, unless what they are made of is their packed form (a sixteenth or more of them). A result
/// whose elements are all equal becomes a broadcast of a scalar constant; broadcasts, and iotas of
/// at most `max_bytes`, stay as they are and count as constants of their readers. `for_cpu`: what
/// is made of a constant of 8-bit integers on its way into a contraction stays as it is where the
/// other factor comes from 8 bits, too (expr/products/integer_products.h multiplies the bytes), and
/// constants of 16-bit floats that loops read as float32 are stored as such.
///     %2 = add(constant 1, constant 2)  ->  %2 = constant 3
/// Returns whether the graph changed.
bool fold_constants(Graph& graph, int64_t max_bytes, bool for_cpu = false);

}  // namespace weft
