#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Weights of few bits are decoded where they are multiplied. What element-wise expressions make of
/// constants, larger than these are, is computed inside the contraction of float32 that reads it:
///     w[k,n] = (f32(q[k,n]) - z[k/32,n]) * s[k/32,n];  y[m,n] = sum[k] x[m,k] * w[k,n]   ->
///     y[m,n] = sum[b,i,j] x[m,32b+8i+j] *
///              ((f32(p[b,i,n] >> 4j & 15) - z[b,n]) * s[b,n])
/// A reduced axis is taken apart where indices divide it. Shifts and masks of bytes are those of
/// int32. Constants of bytes with values of at most 16 in a row, or of 4, are packed: neighbours
/// along the innermost axis of the sum in a word of 32 bits (p above), or in a byte where that axis
/// is too short. So are numbers that the model itself holds in parts of bytes. The values are the
/// same bit for bit; no sum changes but for the order that its axes give it.
///
/// For processors that decode in registers. Requires: a verified program without layouts. Returns
/// whether anything changed.
bool decode_weights(TensorProgram& program);

}  // namespace weft
