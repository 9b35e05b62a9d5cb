#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

/// [B, S, heads * D] as [B, heads, S, D].
ValueId split_heads(GraphBuilder& b, ValueId x, int64_t heads);
/// Its inverse.
ValueId join_heads(GraphBuilder& b, ValueId x);

void translate_linear_attention(OpContext& n);
void translate_rotary_embedding(OpContext& n);

}  // namespace weft::onnx
