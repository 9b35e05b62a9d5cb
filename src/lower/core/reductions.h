#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// `box`: the whole domain, reduced axes included.
void emit_reduction(KernelWriter& w, const TileStatement& statement, const Box& box);

}  // namespace weft::lowering
