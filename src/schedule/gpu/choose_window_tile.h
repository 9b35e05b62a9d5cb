#pragma once

#include <optional>

#include "choice/choice.h"
#include "group/group_space.h"
#include "target/target.h"

namespace weft {

/// A tile whose threads have rows that read a window together (schedule/gpu/window_factor.h): as
/// many rows as divide their axis, vectors of columns, and threads for the rest. `axes` says which
/// axes are columns and reduced ones, and in which order. Nothing where no axis has such rows.
std::optional<ThreadTilesChoice> choose_window_tile(const GroupSpace& space, const Target& target,
                                                    const ThreadTilesChoice& axes);

}  // namespace weft
