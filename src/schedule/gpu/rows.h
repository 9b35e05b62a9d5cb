#pragma once

#include <string>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// Element-wise expressions and reductions over common axes on lanes, warps, blocks, clusters or
/// all blocks (schedule/gpu/thread_stitch.h). Error (kInvalidInput): the choice is none for the
/// group.
Result<ScheduledKernel> build_rows(const GroupSpace& space, const RowsChoice& choice,
                                   const Target& target, const std::string& name);

}  // namespace weft
