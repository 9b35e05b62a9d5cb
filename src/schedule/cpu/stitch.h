#pragma once

#include <string>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// Element-wise expressions and reductions over one common set of axes, stitched in one sweep per
/// level. Values that a later sweep needs are kept in scratch or computed again, as chosen.
/// Requires: a choice of this space's axes and members.
ScheduledKernel build_stitch(const GroupSpace& space, const SweepChoice& choice,
                             const std::string& name);

}  // namespace weft
