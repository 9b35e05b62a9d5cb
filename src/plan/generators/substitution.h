#pragma once

#include "expr/tensor_program.h"
#include "plan/generators/collected_patterns.h"

namespace weft {

/// Substitution fusion (FusionStitching 2019 §4.2.1): all between two neighbouring partition
/// expressions of the program's order is one pattern, which closes no cycle; so is each part of it
/// that reads hold together, alone and with the expression that it stands behind. What partitions
/// grows in steps, and the patterns of every step count: opaque steps and large products, then all
/// products, reductions of columns, reductions to one element, and at last all reductions.
/// A product is large from `large_flops` on.
void substitute(const TensorProgram& program, const FusionGraph& graph, int64_t large_flops,
                CollectedPatterns& patterns);

}  // namespace weft
