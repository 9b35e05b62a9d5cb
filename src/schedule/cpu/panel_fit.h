#pragma once

#include "group/group_space.h"
#include "schedule/writer/template.h"

namespace weft {

/// Products that a panel holds side by side at most.
inline constexpr int kMostProducts = 4;

/// Whether a group goes to a panel: it fits_result_tile, or it holds several products of float32
/// with constants of their own, along the same axes, whose results are combined element by element
/// (the gates of a recurrence; a product and its gate). Then one pass over the rows makes all.
///     p = sum a[m,k]*u[k,n];  q = sum a[m,k]*v[k,n];  y[m,n] = p[m,n] * sigmoid(q[m,n])
Fit fits_panel(const GroupSpace& space);

}  // namespace weft
