#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Lays the weights of a convolution, where they are no constants, with those axes innermost along
/// which the vectors of its result lie: a copy, of which a vector is one load for each place of the
/// window. Constants are laid out in panels when they are compiled.
///     y[n, c, h, w] = sum[KH, KW] x[n, c, h + r0, w + r1] * k[c, 0, r0, r1],  y channels last
///       ->  k_turned = k as {1,1}{2,1,KH}{3,1,KW}{0,1,C}
///     y[n, f, h, w] = sum[C, KH, KW] x[n, r0, h + r1, w + r2] * k[f, r0, r1, r2], both so
///       ->  k_turned = k as {2,1,KH}{3,1,KW}{1,1,C}{0,1,F}
/// However many results there are: batches of other sizes are not to be other programs.
/// Returns whether the program changed.
bool turn_windows(TensorProgram& program);

}  // namespace weft
