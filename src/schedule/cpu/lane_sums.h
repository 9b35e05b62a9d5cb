#pragma once

#include <optional>
#include <string>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"
#include "target/target.h"

namespace weft {

/// Whether the lanes of a panel's vectors go along the sum: its vector axis is a reduced one. Then
/// `rows` and, along the last axis of the grid, `vectors` sums are in registers, each a vector of
/// partial sums.
bool sums_in_lanes(const PanelChoice& choice);

/// A product whose columns are too few to fill vectors, summed up lane by lane along an axis where
/// what it multiplies lies side by side: the last convolution of a network that makes pictures.
///     y[w, c] = sum[16] sum[t, i] x[w + t, i] * k[c, t, i]        with i in vectors of 16
/// Nothing where the group is no such product.
std::optional<PanelChoice> choose_lane_sums(const GroupSpace& space, const Target& target);

/// Error (kInvalidInput): the choice is not one for this space.
Result<ScheduledKernel> build_lane_sums(const GroupSpace& space, const PanelChoice& choice,
                                        const std::string& name);

}  // namespace weft
