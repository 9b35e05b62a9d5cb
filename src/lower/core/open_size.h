#pragma once

#include "tile/tile_program.h"

namespace weft {

/// Whether `var` is a size that the program leaves to the launch; the number of blocks is none.
bool is_open_size(const TileProgram& program, TileVarId var);

}  // namespace weft
