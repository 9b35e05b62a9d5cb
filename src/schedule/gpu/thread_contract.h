#pragma once

#include <string>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// A group with one reduction on the plain cores: a tile of its results in each thread's registers,
/// and what follows on them. Error (kInvalidInput): the choice is none for the group.
Result<ScheduledKernel> build_thread_contract(const GroupSpace& space,
                                              const ThreadTilesChoice& choice,
                                              const std::string& name);

}  // namespace weft
