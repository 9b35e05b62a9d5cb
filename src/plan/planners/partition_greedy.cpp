#include "plan/planners/partitions.h"
#include "plan/planners/stitching_rule.h"

namespace weft {

/// Walks the edges once.
Result<Partition> partition_greedy(const PlanningTask& task) {
  KernelTimes times(task.program, task.target, task.known);
  return merge_greedily(task.program, stitching_rule(task, times));
}

}  // namespace weft
