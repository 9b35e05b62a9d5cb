#pragma once

#include <optional>
#include <vector>

#include "schedule/stages/block_space.h"
#include "schedule/stages/demand_boxes.h"
#include "schedule/stages/form_stages.h"

namespace weft {

/// A group with fewer values to keep, and its partition.
struct ShrunkBlock {
  BlockSpace space;
  BlockPartition partition;
  std::vector<int> again;  ///< members of the whole that readers make for themselves, ascending
};

/// Shrinks what blocks of a partition keep by `bytes` or more (FusionStitching 2018 §5.1.2): values
/// that other stages read are made again in their readers, cheap ones first, then expensive ones,
/// then expensive ones that a contraction multiplies; of each class those nearest to the roots
/// first. `again` are members that are left out as it is; `stages` those of the whole. Nothing
/// where no values are left.
std::optional<ShrunkBlock> shrink_block(const BlockSpace& whole, const BlockPartition& partition,
                                        const DemandBoxes& demand, const Stages& stages,
                                        const std::vector<int>& again, double bytes);

/// The group without these members, and the partition of what is left. Nothing where they are no
/// values that readers make again, or a root is one of them.
std::optional<ShrunkBlock> without(const BlockSpace& whole, const BlockPartition& partition,
                                   const std::vector<int>& again);

}  // namespace weft
