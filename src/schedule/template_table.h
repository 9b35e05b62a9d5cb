#pragma once

#include <span>

#include "group/group_space.h"
#include "schedule/writer/template.h"

namespace weft {

/// The templates of a target, in the order in which a group is offered to them.
std::span<const Template> templates_of(const Target& target);

/// Whether some template builds the group as one kernel: decides legality while planning. The
/// reason names the expressions and the axes that do not agree. What is allowed here,
/// rank_candidates builds.
Decision can_schedule(const GroupSpace& space, const Target& target);

}  // namespace weft
