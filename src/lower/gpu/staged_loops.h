#pragma once

#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// Whether loads of the loop run ahead of its iterations.
bool is_staged(const GpuWriter& w, const TileLoop& loop);

/// All iterations of such a loop.
std::vector<Reg> emit_staged_loop(GpuWriter& w, const TileLoop& loop, std::vector<Reg> carries);

}  // namespace weft::lowering
