#pragma once

#include <string>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// A product through tiles in shared memory, of 16-bit floats on the matrix units, of float32 there
/// where the target allows tf32, else on the plain cores; with what follows it in the group.
/// Errors: kInvalidInput where the tile is none for the group, kUnsupported where the group holds
/// no such product.
Result<ScheduledKernel> build_matrix_contract(const GroupSpace& space, const TilesChoice& tile,
                                              const Target& target, const std::string& name);

}  // namespace weft
