#pragma once

#include <optional>
#include <string>

#include "group/group_key.h"
#include "schedule/schedule.h"

namespace weft {

/// The leaf for all groups of a key: tensors are numbers of the key, and numbers stand for names.
/// `known` (may be null) are the leaves of the program; `measured` as for schedule_group.
/// Error (kUnsupported): no template holds them.
Result<ScheduledKernel> schedule_key(const GroupKey& key, const TensorProgram& program,
                                     const Group& group, const Target& target,
                                     const PhysicalLeaves* known = nullptr,
                                     std::span<const MeasuredComposition> measured = {});

/// The same kernel for one group of its key, as schedule_group would build it; nothing where two
/// symbols would get one name, which only a build of the group's own tells apart.
std::optional<ScheduledKernel> kernel_of_key(const ScheduledKernel& kernel, const GroupKey& key,
                                             const TensorProgram& program, const std::string& name);

}  // namespace weft
