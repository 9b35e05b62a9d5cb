#pragma once

#include "tile/tile_program.h"

namespace weft {

/// Rule 3: moves each statement out of the seq loops that it does not depend on; drops loops of one
/// iteration. Awaited by the planner `chain`, which writes statements at their innermost loops.
bool hoist(TileProgram& program);

}  // namespace weft
