#pragma once

#include "driver/compilation.h"
#include "support/result.h"

namespace weft {

/// Whether every level that the compilation has reached (graph to kernel) parses from what it
/// prints, verifies, and prints the same again. Constants too large to print are found by their
/// hash among those of the level itself. kInternal names the level and the first line that differs.
Status check_round_trips(const Compilation& compilation);

}  // namespace weft
