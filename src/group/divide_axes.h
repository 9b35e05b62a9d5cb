#pragma once

#include "group/cut_group.h"
#include "group/group_axes.h"

namespace weft {

/// Makes two axes of a common one of which reads of a contraction take apart what stands in blocks:
/// the channels of a convolution's groups. Its factors then have axes of their own, and the groups
/// are a batch of products.
///     y[o] = sum[c] x[o floordiv 16 * 16 + c] * w[o, c]
///       ->  y[g, o] = sum[c] x[g * 16 + c] * w'[g, o, c]                w' = w as [G, 16, C]
/// Blocks of a power of two up to `block_lanes` stay. False, and nothing changes, where there is
/// none else.
bool divide_one_axis(GroupCut& cut, const GroupAxes& axes, int64_t block_lanes);

}  // namespace weft
