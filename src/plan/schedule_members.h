#pragma once

#include <string>
#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// The target for a kernel that shares its launch: no block waits for others.
Target without_waiting(Target target);

/// The group's kernel for a launch that it shares: one whose blocks wait for each other gives that
/// up, for what its template says that it costs. Where no template holds the group then it stays as
/// it is, and shares none.
Result<ScheduledKernel> packable(const TensorProgram& program, const Group& group,
                                 const std::string& name, const Target& target,
                                 const ScheduledKernel& best);

/// The union of kernels that share a launch, not scheduled yet.
PlannedKernel united(const std::vector<PlannedKernel>& kernels,
                     const std::vector<int32_t>& members);

}  // namespace weft
