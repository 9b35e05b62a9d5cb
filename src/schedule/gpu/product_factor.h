#pragma once

#include <cstdint>
#include <functional>

#include "expr/scalar_expr.h"
#include "tile/tile_program.h"

namespace weft {

/// A factor of a product in the narrowest float type that holds every value of it: without the
/// conversions to a wider one around it, also around a choice (a pad's) between it and zero.
ScalarRef in_narrowest_type(const ScalarRef& factor);

/// Whether neighbours along the variable `along` lie together in memory, wherever they begin.
bool lies_together(const TileProgram& program, const ScalarRef& value, TileVarId along);

/// Elements along the variable `along` that one access of `value` may have, at most `most`: all
/// that the address, apart from the variable, and `borders`, where the axis begins and ends, are
/// multiples of. `unit_of` says of what another variable takes multiples.
int64_t access_width(const TileProgram& program, const ScalarRef& value, TileVarId along,
                     int64_t most, int64_t borders,
                     const std::function<int64_t(TileVarId)>& unit_of);

}  // namespace weft
