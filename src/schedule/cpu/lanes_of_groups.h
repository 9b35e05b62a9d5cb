#pragma once

#include <cstdint>
#include <span>

#include "group/group_space.h"

namespace weft {

/// A read of a reduction: `root` is its position in the group.
struct RootRead {
  int root = -1;
  const Scalar* scalar = nullptr;
};

/// A number of which all positions are multiples where a stage's boxes begin along the axis.
int64_t unit_of_boxes(const BlockFrame& frame, int axis);

/// Whether all lanes of each vector along an axis of the group read the same element.
bool is_one_element(const GroupSpace& space, int root, const Scalar& read, int axis, int64_t lanes);

/// How many steps along an axis of the reduction read one element for rows beside each other: taps
/// of a window that slides along the rows, 3 of 3 with stride 1 and 1.5 with stride 2. 1 where none
/// share, or the axis is long.
double steps_of_an_element(const GroupSpace& space, const RootRead& read, int row_axis, int axis);

/// Lanes of a vector of channels in groups, each of which is summed up over channels of its own:
/// `reads` are those of the other operand. Either as many as a group has, all of which read one
/// element, or `most` where a group has fewer than half of that, or half and rows share what is
/// read (`steps_of_an_element`): a vector then holds several groups, and is one load whose lanes
/// are permuted.
///     groups of 4, 16 lanes:  a0 a0 a0 a0 b0 b0 b0 b0 c0 …  of  a0 a1 a2 a3 b0 b1 b2 b3 c0 …
int64_t lanes_of_groups(const GroupSpace& space, std::span<const RootRead> reads, int vec_axis,
                        int64_t most, double shared);

}  // namespace weft
