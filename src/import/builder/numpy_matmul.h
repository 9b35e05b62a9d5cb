#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// numpy.matmul: a vector factor is a row (left) or a column (right) whose axis then disappears.
///     f32[3] x f32[2,3,4] -> f32[2,4]
ValueId numpy_matmul(GraphBuilder& b, ValueId x, ValueId y, DType result);

}  // namespace weft::onnx
