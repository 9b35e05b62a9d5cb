#pragma once

#include "tile/tile_program.h"

namespace weft {

/// Iterations of the cluster loops of one nest, or of its loops `by cluster`: the blocks of a
/// cluster; all blocks of a program that is one cluster. 1 without either.
/// Error: clusters within the one, nests that differ, bounds that are not constant, fewer blocks
/// than iterations, all on a GPU.
Result<int64_t> cluster_blocks(const TileProgram& program);

}  // namespace weft
