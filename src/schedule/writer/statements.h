#pragma once

#include <vector>

#include "expr/tensor_program.h"
#include "tile/tile_program.h"

namespace weft {

/// symbol[indices] = value
TileStatement assign(TileSymbolId symbol, std::vector<IndexExpr> indices, ScalarRef value,
                     Place place);
/// carry'[box] = value: the next value of a loop's carry.
TileStatement assign_next(TileSymbolId carry, std::vector<IndexExpr> box, ScalarRef value,
                          Place place);
/// symbol[indices] = combiner[over] of value
TileStatement assign_reduced(TileSymbolId symbol, std::vector<IndexExpr> indices, Combiner combiner,
                             std::vector<TileVarId> over, ScalarRef value, Place place);
/// carry symbol[box] = initial
TileCarry carried(TileSymbolId symbol, std::vector<IndexExpr> box, ScalarRef initial, Place place);

}  // namespace weft
