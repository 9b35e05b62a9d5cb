#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Conversions of a tensor of floats to a wider type go into its readers:
///     w[i] = f32(x[i]); y[i] = w[i] * w[i]  ->  y[i] = f32(x[i]) * f32(x[i])
/// Every kernel then reads and stores what has fewer bytes, and what a kernel hands on in its own
/// type, too, it does not store twice. Values keep their bits.
///
/// Requires: a verified program without layouts. Returns whether anything changed.
bool widen_where_read(TensorProgram& program);

}  // namespace weft
