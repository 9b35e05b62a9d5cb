#pragma once

#include "tile/tile_program.h"

namespace weft {

/// Rule 3: moves each statement out of the seq loops that it does not depend on; drops loops of one
/// iteration.
bool hoist(TileProgram& program);

}  // namespace weft
