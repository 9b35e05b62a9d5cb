#pragma once

#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft {

/// Names unique and defined before use, boxes cover reads, grid loops outermost, no barrier inside
/// a condition, each output element written once (enumerated on small extents), places cover their
/// boxes, reduce axes are box axes.
Status verify_tile_program(const TileProgram& program);
/// The same where its scopes were derived already.
Status verify_tile_program(const TileProgram& program, const ScopeAnalysis& scopes);

}  // namespace weft
