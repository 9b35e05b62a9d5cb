#pragma once

#include <cstdint>
#include <vector>

#include "index/index_expr.h"
#include "tile/tile_program.h"

namespace weft {

/// What one access of device memory asks of a multiprocessor for one warp: instructions of a
/// thread, and lines of 128 bytes that one of them touches, which its first-level cache looks up
/// one after another. Lanes that lie side by side share lines; lanes that are rows apart have one
/// each.
struct WarpAccess {
  double instructions = 1;
  double lines = 1;
};

/// `offset`: of the element in memory, in elements of `bytes`; a line begins at offset 0.
WarpAccess warp_access(const Place& place, const std::vector<TileVarId>& box,
                       const AffineForm& offset, int64_t bytes);

}  // namespace weft
