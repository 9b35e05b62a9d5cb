#pragma once

#include <optional>
#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"
#include "group/join_moments.h"
#include "target/target.h"

namespace weft {

struct RankedRows {
  RowsChoice choice;
  std::optional<double> microseconds;  ///< predicted (schedule/gpu/row_time.h)
};

/// The layouts of a group, those predicted faster first; the last one has sweeps of few elements
/// in one block and always fits. The prediction takes the bytes that are moved, the part of the
/// device that the blocks keep busy (memory_us) and, where rows are split, a barrier for each level
/// of reductions (AStitch §4.3, adaptive thread mapping: many short rows share a block, few long
/// ones are split over blocks): of the grid, with all blocks on the device at once, or where the
/// target has clusters and few blocks suffice, of one, in as many rounds as there are rows.
/// Layouts whose tiles pass through shared memory (`cross`) come without a prediction, those with
/// wider accesses first.
std::vector<RankedRows> row_layouts(const GroupSpace& space, const JoinedGroup& joined,
                                    const Target& target);

}  // namespace weft
