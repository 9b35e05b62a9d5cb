#pragma once

#include <set>
#include <vector>

#include "plan/execution_score.h"
#include "plan/kernel_times.h"
#include "plan/planners/partitions.h"
#include "plan/selectors/select_by_ilp.h"

namespace weft {

/// What the planner `ilp` selects, before anything is merged.
struct IlpPatterns {
  Selection selection;
  size_t candidates = 0;
  std::set<std::vector<ExprId>> measured;  ///< patterns that measured times priced
};

/// Substitution and exploration propose patterns of a graph without merges, the model of saved
/// traffic and launches prices them (products by their own models, and what was measured by that),
/// and an integer program selects (FusionStitching 2019 §4). Error (kMissingDevice): there is no
/// solver.
Result<IlpPatterns> ilp_patterns(const PlanningTask& task, KernelTimes& times,
                                 const ExecutionScore& execution, const FusionGraph& graph);

/// Whether the group is of a kind that the model knows little of and the paper measures: it reduces
/// in several places, products among them (§4.3).
bool is_for_measuring(const TensorProgram& program, const Group& group);

}  // namespace weft
