#pragma once

#include <vector>

#include "choice/choice.h"
#include "group/repeated_reads.h"

namespace weft {

/// Bytes that a layout's blocks ask for of these reads, all requests counted: those of each box,
/// or of each block, or cluster of blocks, for what it keeps.
double requested_bytes(const std::vector<RepeatedRead>& reads, const RowsChoice& layout,
                       const GroupAxes& axes);

/// Boxes of the layout along a free axis; of the whole grid.
int64_t boxes_along(const RowsChoice& layout, const GroupAxes& axes, int axis);
int64_t boxes_of(const RowsChoice& layout, const GroupAxes& axes);

}  // namespace weft
