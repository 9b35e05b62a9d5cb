#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

void translate_roi_align(OpContext& n);
void translate_max_roi_pool(OpContext& n);

}  // namespace weft::onnx
