#pragma once

#include <string>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// Element-wise expressions and reductions along rows and across them (group/two_ways.h), the input
/// read once: rows stay in a block's registers, and what all blocks have of the sums across is
/// combined behind a barrier of the grid. Error (kInvalidInput): the choice is none for the group.
Result<ScheduledKernel> build_two_way_stitch(const GroupSpace& space, const TwoWaysChoice& choice,
                                             const Target& target, const std::string& name);

}  // namespace weft
