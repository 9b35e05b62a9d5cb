#pragma once

#include "lower/core/nests.h"
#include "lower/cpu/cpu_writer.h"

namespace weft::lowering {

/// Items of the dimensions [dim, end) of a loop and of those inside it, sizes as they are bound.
IndexExpr open_items_below(const CpuWriter& w, const TileLoop& loop, size_t dim);

/// Items of a nest.
IndexExpr open_grid_items(const CpuWriter& w, const TileNode& nest);

/// Items of a phase that threads share out: of a pack the sum of its members', else as many as the
/// largest of the nests has.
IndexExpr items_of_phase(const CpuWriter& w, const std::vector<Nest>& nests);

/// One phase: each nest is shared out to the threads in equal parts; the items of a pack's members
/// are one list.
Status emit_phase(CpuWriter& w, const std::vector<Nest>& nests);

/// The pieces of a nest with barriers inside, in their order.
void emit_pieces(CpuWriter& w, const std::vector<GridPiece>& pieces);

/// The items [lo, hi) of dimensions [dim, end) of a loop of the grid.
void emit_grid_dim(CpuWriter& w, const TileLoop& loop, size_t dim, Reg lo, Reg hi);

}  // namespace weft::lowering
