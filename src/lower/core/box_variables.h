#pragma once

#include <vector>

#include "tile/tile_program.h"

namespace weft::lowering {

/// The offsets and axes that an index runs along, each once.
void add_box_variables(const TileProgram& program, const IndexExpr& e,
                       std::vector<TileVarId>* vars);

}  // namespace weft::lowering
