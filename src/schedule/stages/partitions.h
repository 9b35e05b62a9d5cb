#pragma once

#include <vector>

#include "schedule/stages/block_space.h"

namespace weft {

/// Partitions of a group that may be worth a look. Roots are the members that no other reads, the
/// one of most axes first. Its axes are taken whole from the outermost one on, then one of those
/// left in steps, by blocks or by the turns of one. The other roots are cut along axes of the same
/// lengths.
std::vector<BlockPartition> partitions_of(const BlockSpace& space);

}  // namespace weft
