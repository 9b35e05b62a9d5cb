#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// A load from an input asks for what its own axes have, whatever the other axes of the statement's
/// box leave out: copies of it in other registers are then the same. So does one whose element all
/// lanes of a mask share: what no thread wrote is not read.
///     x[row] of sums[row, column] in the last vector of columns  ->  no guard
Reg own_guard(KernelWriter& w, const Scalar& s, const Point& point, Reg guard, uint64_t axes);

/// Of a load of one element whose guard has lanes: whether the point lies in the box along the
/// element's own axes, where what lies beyond may not be made yet. A GPU's launches write what
/// their later phases read; kNoReg for what no phase writes.
Reg made_guard(KernelWriter& w, int32_t buffer, const Scalar& read, const Point& point);

}  // namespace weft::lowering
