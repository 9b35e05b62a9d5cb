#pragma once

#include "choice/composition_kinds.h"
#include "choice/measured_compositions.h"
#include "plan/known_groups.h"
#include "plan/partition.h"
#include "plan/planners/planner_parameters.h"
#include "target/target.h"

namespace weft {

/// What a planner is asked: a partition of the program's expressions into kernels, by compositions
/// of these kinds. What planners learn about groups is known to those that are asked after them.
struct PlanningTask {
  const TensorProgram& program;
  const Target& target;
  CompositionKinds kinds;
  KnownGroups& known;
  PlannerParameters parameters = {};
  const MeasuredCompositions* measured = nullptr;  ///< on the target; null: nothing
};

/// The partition of each planner.
Result<Partition> partition_none(const PlanningTask& task);
Result<Partition> partition_one_reduction(const PlanningTask& task);
Result<Partition> partition_xla(const PlanningTask& task);
Result<Partition> partition_greedy(const PlanningTask& task);
Result<Partition> partition_span(const PlanningTask& task);
Result<Partition> partition_dp(const PlanningTask& task);
Result<Partition> partition_ilp(const PlanningTask& task);
Result<Partition> partition_chain(const PlanningTask& task);
Result<Partition> partition_auto(const PlanningTask& task);

}  // namespace weft
