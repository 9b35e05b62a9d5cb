#pragma once

#include <vector>

#include "cost/estimate.h"
#include "schedule/stages/block_space.h"
#include "schedule/stages/demand_boxes.h"

namespace weft {

/// What blocks of a partition are predicted to take, before they are built.
struct BlockTime {
  Estimate estimate;           ///< of distinct elements; the time is that below
  double flops_made = 0;       ///< with what blocks make again
  double bytes_requested = 0;  ///< that blocks ask for of tensors from outside, and store
  double bytes_kept = 0;       ///< a block's, of values that are handed on
  double least_us = 0;         ///< what no choice of stages goes below
  double microseconds = 0;
};

/// What the group takes as one kernel, before it is cut into blocks.
Estimate estimate_of(const BlockSpace& whole, const Target& target);

/// The slower of distinct bytes from memory and the busiest core's or SM's blocks: their
/// arithmetic, with what is made again, then what they ask the cache for that a tensor lies in, and
/// what they keep for later stages, written and read. `handed_on` says by member whether other
/// stages read it. `estimate` is that of the group; of one whose reductions a loop carries, `space`
/// is that of the steps.
BlockTime block_time(const BlockSpace& space, const Estimate& estimate, const DemandBoxes& demand,
                     const std::vector<bool>& handed_on, const Target& target);

}  // namespace weft
