#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

/// [B, S, heads * D] as [B, heads, S, D].
ValueId split_heads(GraphBuilder& b, ValueId x, int64_t heads);
/// Its inverse.
ValueId join_heads(GraphBuilder& b, ValueId x);

/// What turns the pairs of each head's elements.
struct Rotation {
  ValueId cosine, sine;          ///< [positions, D/2], or [B, S, D/2] without positions
  ValueId positions = kNoValue;  ///< [B, S]
  int64_t dimension = 0;         ///< D, the elements of a head that turn; 0: twice the caches' axis
  bool interleaved = false;      ///< pairs are neighbours, else D/2 apart
};
/// (x1, x2) -> (cos x1 - sin x2, sin x1 + cos x2) for the pairs of x [B, S, heads, head size].
ValueId rotate_heads(OpContext& n, ValueId x, const Rotation& r);

void translate_linear_attention(OpContext& n);
void translate_rotary_embedding(OpContext& n);

}  // namespace weft::onnx
