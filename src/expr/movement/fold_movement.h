#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Vertical composition (Souffle §5.2, MECHANISMS.md): substitutes into its readers every
/// expression that only moves elements (its body is a read under a map, a predicate or a concat of
/// such), so that no such expression remains unless it is an output of the program, feeds an opaque
/// step, or its composition was refused (a growing concat chain: bounded by `max_branches`).
/// Without `into_contractions` these read moved intermediates from memory; constants and inputs
/// they read through the map.
bool fold_movement(TensorProgram& program, int max_branches = 8, bool into_contractions = true);

}  // namespace weft
