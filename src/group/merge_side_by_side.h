#pragma once

#include "group/cut_group.h"

namespace weft {

/// Makes one axis of two that a contraction walks side by side, or that something reduces so, where
/// all members of the cut do. Unlike collapse_axes it asks for no common axes: the tokens of a
/// window are rows of one product, columns of it, and what the next one reduces.
///     s[h, i0, i1, j0, j1] = sum[c] q[h, i0, i1, c] * k[h, j0, j1, c]
///     y[h, i0, i1, c] = sum[j0, j1] s[h, i0, i1, j0, j1] * v[h, j0, j1, c]
/// becomes
///     s[h, i, j] = sum[c] q[h, i, c] * k[h, j, c]
///     y[h, i, c] = sum[j] s[h, i, j] * v[h, j, c]
void merge_side_by_side(GroupCut& cut);

}  // namespace weft
