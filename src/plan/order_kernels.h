#pragma once

#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// Kernels and opaque steps in dependence order; among those that are ready, the one whose first
/// step comes first. A kernel that holds a step waits for no other that does. Error (kInternal):
/// groups that wait for each other, by what they make.
Result<std::vector<FusionPlan::Step>> order_kernels(const TensorProgram& program,
                                                    const std::vector<Group>& groups);

}  // namespace weft
