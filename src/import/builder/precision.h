#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// The type in which an operator of several steps computes on elements of `type`: float32 for
/// float16 and bfloat16 (one rounding at the end instead of one a step), otherwise the type itself.
DType working_type(DType type);

/// The same for operators that leave the integers (a root, a logarithm): float64 for integers.
DType floating_type(DType type);

/// x in working_type / floating_type of its own type.
ValueId widen(GraphBuilder& b, ValueId x);
ValueId to_floating(GraphBuilder& b, ValueId x);

}  // namespace weft::onnx
