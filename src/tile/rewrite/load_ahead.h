#pragma once

#include <cstdint>
#include <vector>

#include "tile/tile_program.h"

namespace weft {

/// Marks the loops at these paths as `ahead`, and no others.
///
/// Requires: paths of `loops_ahead` (tile/analysis/loads_ahead.h).
///     barrier; grid m, n { seq k step 16 stages 3 { … } }
///     ->  grid m, n { seq k step 16 stages 3 ahead { … } }: its first copies of inputs that no
///     nest
///         stores are issued in front of the barrier
void load_ahead(TileProgram& program, const std::vector<std::vector<int32_t>>& loops);

}  // namespace weft
