#pragma once

#include "expr/tensor_program.h"
#include "graph/graph.h"

namespace weft {

/// Graph → TensorProgram. One tensor expression per computing op; reshape, transpose, slice, pad,
/// concat, broadcast, gather and iota become index maps and predicates of their readers (see
/// expr/movement/fold_movement.h), or expressions of their own until then.
///
/// Requires: a verified graph. Establishes: a verified program whose evaluation equals the graph's.
Result<TensorProgram> express(const Graph& graph);

}  // namespace weft
