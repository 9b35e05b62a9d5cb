#pragma once

#include "group/group_space.h"
#include "schedule/writer/template.h"

namespace weft {

/// Whether a group is one reduction with elementwise consumers of its results, which run on the
/// finished tile of them: matrix products, convolutions, windows. What it stores has all of the
/// reduction's output axes.
Decision holds_one_reduction(const GroupSpace& space);

/// The same of any number of reductions, of which each runs along the same axes and reads nothing
/// that the group makes: a tile of the results of each, side by side.
///
/// Requires: a reduction.
Decision holds_reductions_of_one_tile(const GroupSpace& space);

/// Whether such a group goes to a template that holds a tile of the results: the reduction wants
/// one, or the group has no common rows. Cheap: asked for each edge while planning.
Fit fits_result_tile(const GroupSpace& space);

}  // namespace weft
