#pragma once

#include <string>

#include "driver/compilation.h"
#include "driver/explain/compare_plans.h"

namespace weft {

/// What changed since the plan of a file, for the same model and target. kInvalidInput where the
/// file is no plan of the model.
Result<PlanComparison> compare_with_plan(const Compilation& now, const std::string& path);

/// What each planner would make of the model, a line each.
Result<std::string> compare_planners(const Compilation& c);

/// The plan's predicted time beside that of `ilp`, what the patterns gain which that selects, the
/// bound that no other selection exceeds, and the gap between (FusionStitching 2019 §4.1). Error
/// (kMissingDevice): there is no solver.
Result<std::string> optimality_text(const Compilation& c);

}  // namespace weft
