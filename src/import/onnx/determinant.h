#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

/// The determinant of each matrix [..., M, M]: in closed form up to 3, else by elimination with
/// partial pivoting, one step of a scan per column.
void translate_det(OpContext& n);

}  // namespace weft::onnx
