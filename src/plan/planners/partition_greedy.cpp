#include "plan/planners/partitions.h"
#include "plan/planners/stitching_rule.h"

namespace weft {

/// Walks the edges once.
Partition partition_greedy(const TensorProgram& program, const Target& target,
                           CompositionKinds kinds) {
  KnownGroups known(program, target);
  KernelTimes times(program, target, known);
  return merge_greedily(program, stitching_rule(program, target, times, known, kinds));
}

}  // namespace weft
