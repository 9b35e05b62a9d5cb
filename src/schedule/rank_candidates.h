#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace weft {

/// Builds the best candidate of the first template that has the group: the first that fits the
/// target, or of those that meet in banks the one that does so least. The last candidate of a
/// template is taken whatever it asks for. `considered` (may be null) tells what became of each.
/// Error (kUnsupported): can_schedule's reason.
Result<ScheduledKernel> rank_candidates(const GroupSpace& space, const Target& target,
                                        const std::string& name,
                                        std::vector<Considered>* considered);

}  // namespace weft
