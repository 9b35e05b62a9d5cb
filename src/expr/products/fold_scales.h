#pragma once

#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// Divisions by a number, of what is made of integers by products and sums with constants, go into
/// these constants:
///     c = f32(sums[m,n]) * s[n] + b[n];  y = c / 0.5   ->   y = f32(sums[m,n]) * s'[n] + b'[n]
/// Quantisation after a product of integers, or after a sum of dequantised tensors, so is two
/// operations instead of a division and three. max and min with constants are on the way, as the
/// divisor is positive. It is another association of float32: a result is off by some units in the
/// last place, which rounding to integers then hides but near halves.
///
/// Requires: a verified program without layouts. Returns the tensors that were divided.
std::vector<TensorId> fold_scales(TensorProgram& program);

}  // namespace weft
