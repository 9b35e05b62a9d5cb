#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Lays the windows of a convolution by channels, where they are no constants, with the channels
/// innermost, as the vectors of its result lie: a copy, of which a vector is one load for each
/// place of the window.
///     y[n, c, h, w] = sum[KH, KW] x[n, c, h + r0, w + r1] * k[c, 0, r0, r1],  y channels last
///       ->  k_turned = k as {1,1}{2,1,KH}{3,1,KW}{0,1,C}
/// Returns whether the program changed.
bool turn_windows(TensorProgram& program);

}  // namespace weft
