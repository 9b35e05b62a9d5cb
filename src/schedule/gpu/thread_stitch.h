#pragma once

#include <string>

#include "choice/choice.h"
#include "group/group_space.h"
#include "group/join_moments.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// The stitched template on a GPU, in one layout. A row lies on the threads of a block, of a part
/// of it or of several blocks, and stays in registers from its load to its last use; where it is
/// too long for that, each level of reductions is a sweep over it that computes again what it
/// needs. `joined`: the pairs of sums that the layout makes together, else none.
/// Requires: the choice is one for the space (schedule/gpu/rows.cpp).
ScheduledKernel stitch_threads(const GroupSpace& space, const JoinedGroup& joined,
                               const RowsChoice& choice, const std::string& name);

}  // namespace weft
