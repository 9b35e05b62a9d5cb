#pragma once

#include <set>

#include "expr/tensor_program.h"

namespace weft {

/// Splits axes at the places where reads take them apart: an index `v floordiv 64` beside `v mod
/// 64` means that v is two axes, and with them every read is affine again. Axes that expressions
/// share through their tensors are split together; intermediates and outputs take the finer shape
/// (a row-major view of the same bytes, Tensor::declared keeps an output's own), constants are
/// viewed the same way.
///     y[d0, d1] = sum[768] c[d0, r0 floordiv 64, r0 mod 64] * w[r0, d1]
///       ->  y[d0, d1] = sum[12, 64] c[d0, r0, r1] * w'[r0, r1, d1]        w' = w as [12, 64, N]
/// Left as they are: axes whose split some reader could not follow, and those of operands and
/// results of opaque steps. What makes or reads the tensors `inlined` asks for no split on
/// their account: they will be computed where they are read.
bool split_axes(TensorProgram& program, const std::set<TensorId>& inlined = {});

}  // namespace weft
