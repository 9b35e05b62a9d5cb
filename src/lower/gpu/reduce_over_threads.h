#pragma once

#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// Rule 2: lanes by shuffles. Every lane gets the result.
Reg reduce_over_lanes(GpuWriter& w, const Box& box, const TileStatement& statement,
                      Combiner combiner, Reg value);

/// Rule 2: warps through shared memory, all results behind one barrier. Every thread gets them.
void reduce_over_warps(GpuWriter& w, const Box& box, const ReductionKey& key, Combiner combiner,
                       std::vector<Reg>* values);

/// The two places hold the largest of their buffers.
void place_exchanges(GpuWriter& w);

}  // namespace weft::lowering
