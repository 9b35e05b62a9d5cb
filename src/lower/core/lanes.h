#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// A scalar in every lane; a vector as it is.
Reg to_lanes(KernelWriter& w, Reg r, int32_t lanes);

/// Scalars as one vector.
Reg join_lanes(KernelWriter& w, std::vector<Reg> parts);

/// Both masks; kNoReg lets everything through.
Reg combine_guards(KernelWriter& w, Reg a, Reg b);

/// One step of a reduction.
Reg combine_values(KernelWriter& w, Combiner combiner, Reg a, Reg b);

/// Which lanes of a point lie inside the box; `skip` where none does in any thread.
Reg lane_mask_of(KernelWriter& w, const Box& box, const Point& point, bool* skip);

/// The same for the axes whose bits are set.
Reg lane_mask_along(KernelWriter& w, const Box& box, const Point& point, uint64_t axes, bool* skip);

}  // namespace weft::lowering
