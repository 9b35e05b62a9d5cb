#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Takes the axes of a contraction's sum from the longest steps in memory to the shortest, where
/// the last of them goes by pages in every tensor that is read: as the images of a batch do in the
/// gradient of a convolution's weights.
///     w[o, c, kh, kw] = sum[H, W, N] x[r2, c, r0 + kh, r1 + kw] * dy[r2, o, r0, r1]
///       ->  sum[N, H, W] x[r0, c, r1 + kh, r2 + kw] * dy[r0, o, r1, r2]
/// Returns whether the program changed.
bool order_sums(TensorProgram& program);

}  // namespace weft
