#pragma once

#include "plan/kernel_times.h"
#include "plan/planners/partitions.h"
#include "plan/selectors/merge_greedily.h"

namespace weft {

/// Stitches everything that a template can hold: elementwise chains, reductions over common axes
/// with what feeds and follows them, contractions with what follows them; reductions of one tensor
/// along its rows and across them; then what blocks of stages hold, kernel by kernel. Groups merge
/// where one kernel is predicted to be quicker. Scopes are derived when the tile program is built.
///
/// What the task refers to and `times` outlive the rule.
FusionRule stitching_rule(const PlanningTask& task, KernelTimes& times);

/// The task's target; where its parameters say what a launch costs (φ), with that.
Target priced_launches(const PlanningTask& task);

}  // namespace weft
