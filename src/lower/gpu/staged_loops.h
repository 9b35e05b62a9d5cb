#pragma once

#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// Whether loads of the loop run ahead of its iterations.
bool is_staged(const GpuWriter& w, const TileLoop& loop);

/// The first copies of a loop `ahead`, in front of the barrier before its nest. They belong to the
/// first group that is committed behind it: the loop's first, which it waits for, or an older one.
void copy_ahead(GpuWriter& w, const TileLoop& loop);

/// All iterations of such a loop.
std::vector<Reg> emit_staged_loop(GpuWriter& w, const TileLoop& loop, std::vector<Reg> carries);

}  // namespace weft::lowering
