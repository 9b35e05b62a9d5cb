#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

void translate_linear_attention(OpContext& n);
void translate_rotary_embedding(OpContext& n);

}  // namespace weft::onnx
