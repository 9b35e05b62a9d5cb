#pragma once

#include <string>

#include "group/join_moments.h"
#include "schedule/gpu/row_layout.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// The stitched template on a GPU, in one layout. A row lies on the threads of a block, of a part
/// of it or of several blocks, and stays in registers from its load to its last use; where it is
/// too long for that, each level of reductions is a sweep over it that computes again what it
/// needs. `joined`: the pairs of sums that the layout makes together, else none.
ScheduledKernel stitch_threads(const TensorProgram& program, const Group& group,
                               const JoinedGroup& joined, const RowLayout& layout,
                               const std::string& name);

}  // namespace weft
