#pragma once

#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// On a GPU: every digit of the place, and which threads hold copies.
Box make_thread_box(GpuWriter& w, const std::vector<TileVarId>& vars, const Place& place);

}  // namespace weft::lowering
