#pragma once

#include <string>

#include "choice/measured_compositions.h"
#include "plan/fusion_plan.h"
#include "plan/planning_memory.h"
#include "support/cancelled.h"

namespace weft {

struct PlanOptions {
  std::string planner = "auto";  ///< a name of planners.h
  /// Kinds that may be tried (choice/composition_kinds.h); empty: the planner's.
  std::string compositions;
  std::string parameters;  ///< of the planner (planner_parameters.h), `top=5,beam=8`; empty: none
  /// Every contraction counts as a library call and shares a kernel with nothing, as in the papers:
  /// so that the kernels that are bound by memory can be counted beside theirs.
  bool compute_as_calls = false;
  CancelFlag cancel = nullptr;
  const MeasuredCompositions* measured = nullptr;  ///< on the target; null: nothing
  PlanningMemory* memory = nullptr;  ///< of earlier plannings, and for later ones; null: none
};

/// Plans `program` (and its regions) by the planner named in `options`. Deterministic. Errors for
/// names of no planner: see find_planner. Throws Cancelled where the options' flag says so.
Result<FusionPlan> plan_fusion(const TensorProgram& program, const Target& target,
                               const PlanOptions& options);

}  // namespace weft
