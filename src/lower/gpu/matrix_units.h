#pragma once

#include "lower/gpu/gpu_writer.h"
#include "tile/places.h"

namespace weft::lowering {

/// The carry that `next` adds the product to, which nothing else reads; -1.
TileSymbolId accumulates(const GpuWriter& w, const TileNode& product, const TileNode& next);

/// `carry` (-1: none) is the accumulator that the product is added to.
void emit_matrix_product(GpuWriter& w, const TileStatement& statement, const UnitProduct& product,
                         TileSymbolId carry);

}  // namespace weft::lowering
