#pragma once

#include "import/builder/graph_builder.h"

namespace weft::hlo {

/// Signed integers of x's width that compare as IEEE 754's total order of the floats in x: -NaN,
/// -inf, …, -0, 0, …, inf, NaN.
ValueId total_order_key(onnx::GraphBuilder& b, ValueId x);

}  // namespace weft::hlo
