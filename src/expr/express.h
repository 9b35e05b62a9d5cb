#pragma once

#include <set>

#include "expr/tensor_program.h"
#include "graph/graph.h"

namespace weft {

/// Graph → TensorProgram. One tensor expression per computing op; reshape, transpose, slice, pad,
/// concat, broadcast, gather and iota become index maps and predicates of their readers (see
/// fold_movement), or expressions of their own until then.
///
/// Requires: a verified graph. Establishes: a verified program whose evaluation equals the graph's.
Result<TensorProgram> express(const Graph& graph);

/// Vertical composition (Souffle §5.2, MECHANISMS.md): substitutes into its readers every
/// expression that only moves elements (its body is a read under a map, a predicate or a concat of
/// such), so that no such expression remains unless it is an output of the program, feeds an opaque
/// step, or its composition was refused (a growing concat chain: bounded by `max_branches`).
/// Without `into_contractions` these read moved intermediates from memory; constants and inputs
/// they read through the map.
bool fold_movement(TensorProgram& program, int max_branches = 8, bool into_contractions = true);

/// Splits axes at the places where reads take them apart: an index `v floordiv 64` beside `v mod
/// 64` means that v is two axes, and with them every read is affine again. Axes that expressions
/// share through their tensors are split together; intermediates and outputs take the finer shape
/// (a row-major view of the same bytes, Tensor::declared keeps an output's own), constants are
/// viewed the same way.
///     y[d0, d1] = sum[768] c[d0, r0 floordiv 64, r0 mod 64] * w[r0, d1]
///       ->  y[d0, d1] = sum[12, 64] c[d0, r0, r1] * w'[r0, r1, d1]        w' = w as [12, 64, N]
/// Left as they are: axes whose split some reader could not follow, and those of operands and
/// results of opaque steps. What makes or reads the tensors `inlined` asks for no split on
/// their account: they will be computed where they are read.
bool split_axes(TensorProgram& program, const std::set<TensorId>& inlined = {});

/// Movement at the end of the program (Souffle §5.2 seen from the other side): an output that only
/// rearranges the elements of an intermediate which nothing else reads takes that intermediate's
/// expression over, under the map of its read.
///     t[d0, d1] = exp(x[d0, d1]); y[d0, d1] = t[d1, d0]  ->  y[d0, d1] = exp(x[d1, d0])
/// Requires: fold_movement ran. Maps that would leave reads with floordiv or mod are left alone.
bool sink_movement(TensorProgram& program);

/// Horizontal merging (Souffle §5.1): contractions that read the same tensor through the same map
/// with constant right operands of equal contracted extents become one with the constants
/// concatenated; their consumers read slices of it.
bool merge_products(TensorProgram& program);

/// Removes expressions and tensors that nothing uses.
bool remove_dead_expressions(TensorProgram& program);

}  // namespace weft
