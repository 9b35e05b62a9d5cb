#pragma once

#include "group/group_space.h"

namespace weft {

/// Whether a group is one reduction with elementwise consumers of its results, which run on the
/// finished tile of them: matrix products, convolutions, windows. What it stores has all of the
/// reduction's output axes.
Decision holds_one_reduction(const GroupSpace& space);

}  // namespace weft
