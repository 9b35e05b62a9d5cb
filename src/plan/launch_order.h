#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// Positions in a plan's order, by the launches that hold their steps; the launches one after
/// another.
using Launches = std::vector<std::vector<size_t>>;

/// A plan's steps in rounds: all that shares no launch, each as soon as what it reads is there;
/// then all kernels that are ready and may share one; and so on. So kernels stand side by side
/// that no step between makes wait for each other, however far apart the plan has them: the cells
/// of a wavefront, towers. Positions in the plan's order, of which a round keeps the order.
std::vector<size_t> order_in_rounds(const TensorProgram& program, const FusionPlan& plan,
                                    const std::function<bool(size_t step)>& may_share);

/// Launches in the order of their first steps by `rank`, those of several steps no earlier than one
/// of a single step waits for them: what they read and make then lives no longer than it must.
///
/// Requires: no two launches wait for each other.
Launches order_as_needed(const TensorProgram& program, const FusionPlan& plan, Launches launches,
                         const std::vector<size_t>& rank);

/// The most bytes between launches that are alive at once.
int64_t most_alive(const TensorProgram& program, const FusionPlan& plan, const Launches& launches);

}  // namespace weft
