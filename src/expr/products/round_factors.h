#pragma once

#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// Rounds the factors of contractions to bfloat16 (to nearest even), while their sums stay in
/// float32. Where a constant is multiplied:
///     y = contraction sum[768]:f32 x[d0, r0] * w[r0, d1]   ->   x_bf16: bf16 = bf16(x[d0, d1])
///     y = contraction sum[768]:f32 f32(x_bf16[d0, r0]) * f32(w_bf16[r0, d1])
/// The constant is rounded here. What contractions alone read is stored rounded by its producer. Of
/// what others read, too, there is a rounded copy, for all contractions the same, up to a size at
/// which a copy costs more than it keeps: of larger tensors all read what is rounded.
///
/// Contractions of two tensors that are no constants, and those whose sum has no axis along which
/// pairs of products could be added up (expr/products/bfloat_products.h), stay as they are: no
/// processor makes them faster, and rounding would cost digits for nothing.
///
/// Requires: a verified program without layouts. Returns what the contractions make whose factors
/// were rounded.
std::vector<TensorId> round_factors(TensorProgram& program);

}  // namespace weft
