#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// The determinant of each matrix of x [..., M, M]: in closed form up to 3, else by elimination
/// with partial pivoting, one step of a scan per column.
ValueId determinant(GraphBuilder& b, ValueId x);

}  // namespace weft::onnx
