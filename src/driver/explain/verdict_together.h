#pragma once

#include <string>

#include "driver/explain/edge_verdicts.h"

namespace weft {

/// What would become of two nodes of the model in one kernel, with all kernels that lie between
/// theirs: fused (they are), illegal, unprofitable, or possible where the kernel is predicted to
/// take less than those it replaces and the planner did not come upon it. Its notes are the edges
/// on the way that were cut, and what would change the verdict. Times are those that planners
/// compare groups by (plan/kernel_times). Error (kInvalidInput): a name that no step outside of
/// loops has.
Result<EdgeVerdict> verdict_together(const Explained& c, const std::string& from,
                                     const std::string& to);

}  // namespace weft
