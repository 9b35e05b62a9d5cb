#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// An element from a register or from memory.
Reg evaluate_read(KernelWriter& w, const Scalar& read, const Point& point, Reg guard);

}  // namespace weft::lowering
