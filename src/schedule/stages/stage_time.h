#pragma once

#include <vector>

#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"
#include "target/target.h"

namespace weft {

/// What the busiest SM of a GPU is predicted to take for a built stage of its blocks, in
/// microseconds, without the launch: the larger of what its units and its share of the caches take
/// for all of its blocks, and of what one block waits for, as often as it comes to its turn. `sm`
/// is the device as a block sees it (inside_block). `in_warps`: by tensor of the space, whether
/// stages hand it on in registers, and not through block memory. Requires: a space with a frame, a
/// kernel of it with its choice and its scopes.
double stage_us(const GroupSpace& stage, const ScheduledKernel& kernel, const Target& sm,
                const std::vector<bool>& in_warps);

}  // namespace weft
