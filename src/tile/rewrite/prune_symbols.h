#pragma once

#include <set>

#include "tile/tile_program.h"

namespace weft {

/// Takes symbols away that nothing names: views, workspaces, and values that were made.
void prune_symbols(TileProgram& program);

/// Takes outputs away that no nest reads, and what was made for them alone. `parameters` are their
/// numbers; those that a view still reads stay. Returns the ones that went.
std::set<size_t> drop_outputs(TileProgram& program, const std::set<size_t>& parameters);

}  // namespace weft
