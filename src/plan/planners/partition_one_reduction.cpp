#include <algorithm>
#include <utility>

#include "plan/planners/partitions.h"
#include "plan/planners/stitching_rule.h"

namespace weft {

/// As greedy, with one reduction a kernel at most: what compilers make that know epilogues and
/// element-wise chains alone.
Result<Partition> partition_one_reduction(const PlanningTask& task) {
  KernelTimes times(task.program, task.target, task.known);
  const FusionRule stitching = stitching_rule(task, times);
  FusionRule rule;
  rule.profitable = stitching.profitable;
  rule.legal = [&](const Group& merged) {
    const auto reduces = [&](ExprId e) {
      return !task.program.exprs[static_cast<size_t>(e)].reduce_extents.empty();
    };
    if (std::ranges::count_if(merged.exprs, reduces) > 1)
      return Decision::forbid("the kernel would hold more than one reduction");
    return stitching.legal(merged);
  };
  return merge_greedily(task.program, rule);
}

}  // namespace weft
