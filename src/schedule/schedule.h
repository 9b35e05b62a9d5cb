#pragma once

#include <optional>
#include <string>

#include "group/group.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// Whether some template can hold the group in one kernel: cheap, decides legality while planning.
/// The reason names the two expressions and the axes that do not agree.
Decision can_schedule(const TensorProgram& program, const Group& group, const Target& target);

/// Whether the group holds a contraction and reductions of its results: how quick the product is
/// depends on the tile that these leave it.
bool reduces_behind_product(const TensorProgram& program, const Group& group);

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
Decision can_reduce_both_ways(const TensorProgram& program, const Group& group,
                              const Target& target);

/// The best tile program among the templates' candidates for a group that can_schedule allows.
Result<ScheduledKernel> schedule_group(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name);

/// Puts the traffic of the kernel's tile program in the place of what the cost model says about its
/// bytes. Microseconds stay: they are those by which kernels were chosen.
void estimate_traffic(ScheduledKernel& kernel);

/// The tile program of a CPU with choices made for the same group at another binding. The error
/// says what does not fit.
Result<TileProgram> schedule_as_chosen(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name,
                                       const ScheduleChoices& choices);

}  // namespace weft
