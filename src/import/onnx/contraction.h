#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

/// alpha * A' * B' + beta * C of a Gemm's attributes, in the type of A; C may be kNoValue.
ValueId gemm(OpContext& n, ValueId x, ValueId y, ValueId c);

/// Einsum: any number of operands, contracted from left to right.
void translate_einsum(OpContext& n);

}  // namespace weft::onnx
