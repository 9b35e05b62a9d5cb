#pragma once

#include <optional>
#include <vector>

#include "tile/tile_structure.h"

namespace weft {

/// Elements of a symbol in memory; none where a size is not bound.
std::optional<int64_t> elements_of(const TileSymbol& symbol);

/// The places at which a view lies in the iterations of its recurrence, in their order: one for a
/// view that is always at the same; none where they are too many to list.
std::optional<std::vector<int64_t>> places_of(const TileStructure& structure,
                                              const TileSymbol& view);

/// By symbol: of a view the first that shows the same place of the same tensor, where no other
/// place shares elements with it in one iteration of its recurrence; else -1. Iterations, and what
/// stands before and behind a recurrence, have barriers between them.
std::vector<TileSymbolId> view_parts(const TileStructure& structure);

}  // namespace weft
