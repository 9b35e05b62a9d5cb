#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tile/tile_program.h"

namespace weft {

/// A tile program whose numbers that depend on a binding are sizes, and their values there.
struct OpenTileProgram {
  TileProgram program;
  std::vector<int64_t> values;  ///< of the open sizes, in the order of their variables
};

/// What two bindings of one kernel, `here` and `there`, have in common: the numbers in which they
/// differ become sizes that stay open, one for each pair of values, or such a size and a constant,
/// or a multiple of one. The tile sizes, layouts and divisors must be the same.
///     f32[24,160,16], grid i in 160 step 14   and   f32[24,320,16], grid i in 320 step 14
///     ->  f32[24,S0,16], grid i in S0 step 14   with S0 = 160
/// nullopt where the two differ in anything else, names apart. Equal programs: `here`, no values.
std::optional<OpenTileProgram> open_sizes(const TileProgram& here, const TileProgram& there);

}  // namespace weft
