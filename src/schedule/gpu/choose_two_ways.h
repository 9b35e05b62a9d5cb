#pragma once

#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"
#include "target/target.h"

namespace weft {

/// Whether a kernel reduces the group's rows along themselves and across each other: on a GPU with
/// barriers of the grid, where a row and what is carried across it stay in a block's registers.
Decision reduces_two_ways(const GroupSpace& space, const Target& target);

/// How such a group may lie on blocks, as many of them on an SM as its registers may allow first,
/// one last.
/// Requires: reduces_two_ways.
std::vector<TwoWaysChoice> two_way_layouts(const GroupSpace& space, const Target& target);

}  // namespace weft
