#pragma once

#include <string>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// One reduction with a register tile on two of its output axes (a product is read again along each
/// of them), and elementwise consumers on the finished tile. Constants lie in panels in loop order;
/// a dynamic operand that is not contiguous is staged panel by panel in scratch.
/// Error (kInvalidInput): the choice is not one for this space.
Result<ScheduledKernel> build_contract(const GroupSpace& space, const PanelChoice& choice,
                                       const std::string& name);

}  // namespace weft
