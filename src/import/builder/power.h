#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// base ** exponent, both of one type. The third power of float32 and float64, GELU's in its form
/// with tanh, is two products, as onnxruntime and XLA compute it: within 1.5 units in the last
/// place.
ValueId power(GraphBuilder& b, ValueId base, ValueId exponent);

}  // namespace weft::onnx
