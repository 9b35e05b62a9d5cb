#pragma once

#include <optional>

#include "group/group.h"
#include "schedule/writer/scheduled_kernel.h"
#include "target/target.h"
#include "tiling/tiling_expression.h"

namespace weft {

/// The tiling expression that the loops of a built chain are (MCFuser §III-A), read off its
/// program: how loops over the tiles of rows (m), of the first contraction's depth (k), of the axis
/// that both share (n) and of what the second one makes (h) stand around the two. Loops of one
/// iteration are none, nor are those that cut a block's tile for registers, and those over parts of
/// the axis. Nothing for what is no chain of one or two contractions.
///     grid m, h { seq n { seq k { … } … } }     mhnk
std::optional<TilingExpression> tiling_of(const TensorProgram& program, const Group& group,
                                          const ScheduledKernel& kernel, const Target& target);

}  // namespace weft
