#pragma once

#include <optional>
#include <span>

#include "choice/choice.h"
#include "group/group_space.h"

namespace weft {

/// The sweep whose innermost axes are written out, element by element, for a group that copies or
/// computes element by element and reads at quotients, remainders or on one side of a border: as
/// shuffled channels do. Each element's place is a number then, where lanes would gather. Nothing
/// where all reads are affine, where data say the places, or where a row is too long to write out.
std::optional<SweepChoice> choose_written_out(const GroupSpace& space, const SweepChoice& swept);

/// Whether the inner axes of a sweep are written out: a sweep of a reduction has its reduced axes
/// there, one without has the axis of its vectors alone.
bool is_written_out(const GroupSpace& space, const SweepChoice& choice);
/// Whether rows of these axes are of known lengths, and few elements.
bool can_be_written_out(const GroupSpace& space, std::span<const int> axes);

}  // namespace weft
