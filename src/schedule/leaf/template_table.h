#pragma once

#include <span>

#include "group/group_space.h"
#include "schedule/writer/template.h"

namespace weft {

/// The templates of a target, in the order in which a group is offered to them.
std::span<const Template> templates_of(const Target& target);

/// Whether a template builds such a group: a stage is left to those that build stages.
bool takes_groups_like(const Template& t, const GroupSpace& space);

/// Whether some template builds the group as one kernel, or as one stage. The reason names the
/// expressions and the axes that do not agree. What is allowed here, rank_candidates builds.
Decision can_be_leaf(const GroupSpace& space, const Target& target);

}  // namespace weft
