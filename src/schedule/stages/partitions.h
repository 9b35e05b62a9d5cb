#pragma once

#include <vector>

#include "schedule/stages/block_space.h"

namespace weft {

/// Partitions of a group that may be worth a look. Roots are the members that no other reads, the
/// one of most axes first. Its axes are taken whole from the outermost one on, then one of those
/// left in steps, by blocks or by the turns of one. The other roots are cut along axes of the same
/// lengths.
std::vector<BlockPartition> partitions_of(const BlockSpace& space);

/// A cut along one axis of the first root.
struct AxisCut {
  int axis = -1;
  int64_t step = 1;
  bool turns = false;
};
/// The partition of those cuts, in their order; the other roots are cut along.
BlockPartition partition_along(const BlockSpace& space, const std::vector<AxisCut>& cuts);

}  // namespace weft
