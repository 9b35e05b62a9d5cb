#pragma once

#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// Memory of matrix units holds zeros where a statement's box is predicated off.
struct FillMask {
  bool outside = false;  ///< outside of the tile in every thread
  Reg tile = kNoReg;     ///< inside of the tile
  bool empty = false;    ///< predicated off in every thread
  Reg valid = kNoReg;    ///< not predicated off
};

/// Which elements of a point are made, and which hold zeros instead.
FillMask fill_mask(GpuWriter& w, const Box& box, const Point& point);

/// The value of a point, zero where the mask leaves it out.
Reg filled_value(GpuWriter& w, const TileStatement& s, const Point& point, const FillMask& mask);

}  // namespace weft::lowering
