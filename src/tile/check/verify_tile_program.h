#pragma once

#include "tile/tile_program.h"

namespace weft {

/// Names unique and defined before use, boxes cover reads, grid loops outermost, no barrier inside
/// a condition, each output element written once (enumerated on small extents), places cover their
/// boxes, reduce axes are box axes.
Status verify_tile_program(const TileProgram& program);

}  // namespace weft
