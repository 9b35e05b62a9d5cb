#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// The inverse of merge_products where a product's columns are combined element by element, as the
/// gates of a recurrence or a product and its gate are: the product becomes one for each part, with
/// that part of its constant, and so does what is made of it on the way. A kernel can then hold all
/// parts in one tile, and combine them there (schedule/cpu: fits_panel).
///     p[m, n] = sum[K] a[m, r0]*w[n, r0];  y[m, n] = p[m, n] * sigmoid(p[m, n + 64])
///       ->  p0 = sum[K] a[m, r0]*w0[n, r0];  p1 = sum[K] a[m, r0]*w1[n, r0];
///           y[m, n] = p0[m, n] * sigmoid(p1[m, n])
/// Products of float32 with a constant of which two to four equal parts of whole vectors, or nearly
/// so, of `lanes` are read, each element by element, and of which some expression has all.
///
/// Elements keep their bits. Returns whether the program changed.
bool part_products(TensorProgram& program, int64_t lanes);

}  // namespace weft
