#pragma once

#include "lower/cpu/cpu_writer.h"

namespace weft::lowering {

/// A dimension of the grid with the items [lo, hi) of it and of the dimensions within.
struct OpenDim {
  const TileLoop* loop = nullptr;
  size_t dim = 0;
  IndexExpr begin, extent;
  Reg lo = kNoReg, hi = kNoReg;
  Reg first = kNoReg, last = kNoReg;  ///< iterations that hold some of them
  IndexExpr inner = 1;                ///< items of one iteration
};

/// Iterations that hold an item of [lo, hi).
void find_iterations(CpuWriter& w, OpenDim& open);

/// What stands inside an iteration, `origin` its first element.
void emit_open_iteration(CpuWriter& w, const OpenDim& open, const IndexExpr& origin, Reg iteration);

/// Tiles in the order of memory: those of the left border, those inside, then what is left, the
/// right border and the rest of the last tile, element by element (vector by vector along the
/// vector axis): the code for it is small, and serves rests of every length.
void emit_open_grid_dim(CpuWriter& w, const TileLoop& loop, size_t dim, Reg lo, Reg hi);

}  // namespace weft::lowering
