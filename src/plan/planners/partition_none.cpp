#include "plan/planners/partitions.h"
#include "plan/selectors/merge_greedily.h"

namespace weft {

/// One expression a kernel.
Result<Partition> partition_none(const PlanningTask& task) {
  FusionRule rule;
  rule.legal = [](const Group&) { return Decision::allow(); };
  rule.profitable = [](const Group&, const Group&, const Group&) {
    return Decision::forbid("planner none fuses nothing");
  };
  return merge_greedily(task.program, rule);
}

}  // namespace weft
