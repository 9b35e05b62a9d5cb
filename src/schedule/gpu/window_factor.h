#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "group/group_space.h"

namespace weft {

/// What results along an axis of a group's one reduction read of a window together: a factor that
/// is read at `stride * row + dilation * tap` alone, by the axis of the results (`row`) and one
/// that is reduced (`tap`), as convolutions and pooling read their pixels. `rows` results one
/// behind another read `elements(rows)` of them, each of which serves up to `taps` results.
struct WindowFactor {
  ScalarRef moved;  ///< the factor, over the root's own variables
  ScalarRef other;  ///< the one that all rows share; null: the window is all that is reduced
  int tap = -1;     ///< the reduced axis
  int64_t taps = 1, stride = 1, dilation = 1;
  int64_t elements(int64_t rows) const { return (rows - 1) * stride + (taps - 1) * dilation + 1; }
};

/// The window along `row`, of the last of the reduced axes in `inner` that has one. Nothing where
/// none has, or where extents are open: a window is as wide as its taps, and rows must divide.
/// Requires: one reduction.
std::optional<WindowFactor> window_along(const GroupSpace& space, int row,
                                         const std::vector<int>& inner);

/// Whether an index of what the root computes, given over its variables, uses a group's axis.
bool runs_along(const GroupSpace& space, const ScalarRef& factor, int axis);

}  // namespace weft
