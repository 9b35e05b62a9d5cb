#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// What is dequantised, is so by each of its readers: between kernels it then lies in 8 bits.
///     d[i] = (f32(q[i]) - z) * s;  y[i] = exp(d[i]);  u[i] = d[i] + x[i]   ->
///     y[i] = exp((f32(q[i]) - z) * s);  u[i] = (f32(q[i]) - z) * s + x[i]
/// where q, of 8 bits and as many elements as d, is all that varies, and the steps to d are few
/// conversions, sums and products. So an embedding gathers bytes of a table that no kernel makes
/// whole. What requantises 8 bits to themselves (a reshape between DequantizeLinear and
/// QuantizeLinear of one scale), tried on all 256 values, is that tensor, in another order.
///
/// Contractions of floats read what they did: they use an element often. The values are the same
/// bit for bit. Requires: a verified program without layouts. Returns whether anything changed.
bool read_bytes(TensorProgram& program);

}  // namespace weft
