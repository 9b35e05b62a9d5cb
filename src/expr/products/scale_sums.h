#pragma once

#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// Numbers that scale what a sum of products reads out of a larger tensor scale the sum instead:
///     q[m,k] = x[m,k] * 0.35; t[k,n] = x[n,k + 64] * 0.35; s[m,n] = sum[k] q[m,k] * t[k,n]
///       ->  u[m,n] = sum[k] x[m,k] * x[n,k + 64]; s[m,n] = u[m,n] * 0.1225
/// Where attention is exported so, its queries and keys are read as the projections left them, with
/// no kernel between. Sums are kept in float32; a factor of 16 bits is no longer rounded after it
/// was scaled, and nothing overflows there. What is read as it was made is scaled there, and what
/// several read is scaled once.
///
/// Requires: a verified program without layouts. Returns the sums that are scaled.
std::vector<TensorId> scale_sums(TensorProgram& program);

}  // namespace weft
