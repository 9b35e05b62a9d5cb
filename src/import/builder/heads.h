#pragma once

#include "import/builder/graph_builder.h"

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
ValueId rotate_heads(GraphBuilder& b, ValueId x, const Rotation& r);

/// What attention computes on, in its working type, heads the second axis: [B, heads, S, size].
struct Heads {
  ValueId query = kNoValue, key = kNoValue, value = kNoValue;
  double scale = 0;            ///< 0: one over the root of the head size
  double softcap = 0;          ///< 0: none
  ValueId bias = kNoValue;     ///< added to the scores [B, heads, S, T]
  ValueId allowed = kNoValue;  ///< where a key is seen; elsewhere its score is the lowest number
};
/// softmax(scale * Q K' + bias) V as [B, S, heads * size]. Each key head serves its group of query
/// heads, which the products see as more rows.
ValueId attend(GraphBuilder& b, const Heads& h);

/// Where key j is not ahead of query i, which stands at position `past` + i: [S, T].
ValueId causal_mask(GraphBuilder& b, int64_t rows, int64_t keys, int64_t past);

}  // namespace weft::onnx
