#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/rank_candidates.h"

namespace weft {

/// Whether some template builds the group as one kernel (schedule/template_table.h).
Decision can_schedule(const TensorProgram& program, const Group& group, const Target& target);

/// What the group takes by the model that a GPU's product is tiled by; nothing where it holds no
/// product that goes through tiles.
std::optional<double> predicted_product_us(const TensorProgram& program, const Group& group,
                                           const Target& target);

/// What the group takes as a library call of a target that names the library; nothing where it is
/// none.
std::optional<double> predicted_library_us(const TensorProgram& program, const Group& group,
                                           const Target& target);

/// Whether the template that reduces rows along themselves and across each other holds the group:
/// then one kernel reads the rows once, though its reductions hand each other nothing.
Decision can_reduce_both_ways(const GroupSpace& space, const Target& target);

/// The best tile program among the templates' candidates. Error (kUnsupported): no template holds
/// the group, and why.
Result<ScheduledKernel> schedule_group(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name);

/// Puts the traffic of the kernel's tile program in the place of what the cost model says about its
/// bytes. Microseconds stay: they are those by which kernels were chosen.
void estimate_traffic(ScheduledKernel& kernel);

/// The tile program of a group as it was composed, for the same program or one that binds the
/// model's dimensions otherwise: nothing is chosen again. Error (kInvalidInput): what does not fit.
Result<ScheduledKernel> build_leaf(const TensorProgram& program, const Group& group,
                                   const Composition& composition, const Target& target,
                                   const std::string& name);

/// What was considered for a group, in the order of the templates and of their candidates.
Result<std::vector<Considered>> considered_candidates(const TensorProgram& program,
                                                      const Group& group, const Target& target);

}  // namespace weft
