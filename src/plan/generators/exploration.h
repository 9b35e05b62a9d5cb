#pragma once

#include "expr/tensor_program.h"
#include "plan/generators/collected_patterns.h"

namespace weft {

/// Where exploration begins, and when it is given up. Counts, so that it is deterministic.
struct ExplorationLimits {
  size_t most_operands = 10;     ///< of a seed
  int64_t least_bytes = 4096;    ///< of the largest tensor that a seed reads or makes
  size_t patterns_of_seed = 12;  ///< found from one seed
};

/// Exploratory fusion (FusionStitching 2019 §4.2.2): from each seed, a producer or a consumer of a
/// pattern joins it where a kernel holds both and no cycle is closed, and so on from there, depth
/// first.
void explore(const TensorProgram& program, const FusionGraph& graph,
             const ExplorationLimits& limits, CollectedPatterns& patterns);

}  // namespace weft
