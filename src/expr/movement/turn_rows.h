#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Lays a factor of a product so that the sum goes along it, where neighbouring rows of the result
/// lie side by side in it, far from the next step of the sum, and many columns read it again: a
/// copy. The lines of what is read step by step share few sets of a cache otherwise. What half of
/// `cache_bytes` holds stays, and what short sums read; 0 where lengths are open: batches of other
/// sizes are not to be other programs.
///     y[m, n] = sum[K] a[r0, m] * b[r0, n]   ->   a_rows = a as {1,1,M}{0,1,K}
/// Gradients of weights are such products: of a matrix, and over images whose channels lie last.
/// Where both factors of such a gradient lie along the sum, that over which the window does not
/// slide is laid out with its channels innermost: they fill vectors, which places of a window do
/// not.
/// Returns whether the program changed.
bool turn_rows(TensorProgram& program, int64_t cache_bytes);

}  // namespace weft
