#pragma once

#include <span>

#include "assemble/barriers.h"

namespace weft {

/// What a step takes, whoever makes it.
struct StepWork {
  bool can_share = false;  ///< a launch of several items
  double alone_us = 0;     ///< of one thread that has all data in its cache
  double shared_us = 0;    ///< from which on the threads gain by sharing it
  double read_bytes = 0;   ///< at most, of each of its buffers
};

/// Shares steps that one thread would make alone, where most of what it takes would be the lines
/// that lie in the caches of the other cores, as these made them. Later steps see who made what.
void share_steps(std::span<const ProgramBuffer> buffers, std::span<const StepWork> works,
                 std::span<StepAccess> steps);

}  // namespace weft
