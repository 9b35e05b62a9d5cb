#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

/// numpy.matmul: a vector factor is a row (left) or a column (right) whose axis then disappears.
///     f32[3] x f32[2,3,4] -> f32[2,4]
ValueId numpy_matmul(GraphBuilder& b, ValueId x, ValueId y, DType result);

/// alpha * A' * B' + beta * C of a Gemm's attributes, in the type of A; C may be kNoValue.
ValueId gemm(OpContext& n, ValueId x, ValueId y, ValueId c);

/// Einsum: any number of operands, contracted from left to right.
void translate_einsum(OpContext& n);

}  // namespace weft::onnx
