#pragma once

#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// `reduced`: digits of reduced axes, else of the others.
std::vector<RolledDigit> roll(const GpuWriter& w, const TileStatement& statement, bool reduced,
                              Box* box);

/// Loads from inputs that do not change along the rolled digits, made before their loops: once, as
/// where the box is written out.
void hoist_loads(GpuWriter& w, const TileStatement& statement, const Box& box,
                 const std::vector<RolledDigit>& rolled);

}  // namespace weft::lowering
