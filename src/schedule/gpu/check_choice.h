#pragma once

#include <vector>

#include "choice/choice.h"
#include "group/group_axes.h"
#include "support/result.h"

namespace weft {

/// What a choice must be before a kernel is built from it: its text can be edited by hand, or be
/// that of the group at another binding of the model's dimensions. Errors are kInvalidInput.

/// Axes of extent above 1 among `axes`, each listed once and none else.
Status check_axes(const GroupAxes& space, const std::vector<int>& axes,
                  const std::vector<int>& listed);

/// Digits of a block: extents of at least 1, powers of two where they are threads' or of a vector,
/// 32 lanes and `warps` warps at most in all; vectors innermost, along one axis. 1024 threads.
Status check_threads(const AxisDigits& digits, int64_t warps);

/// The digits along an axis; none: one element.
const std::vector<Place::Digit>& digits_along(const AxisDigits& digits, int axis);

}  // namespace weft
