#include "import/onnx/attention.h"

namespace weft::onnx {
namespace {

/// A cache [positions, D/2] at each position, or [B, S, D/2] as it is: [B, S, 1, D/2].
ValueId rotation(OpContext& n, ValueId cache, ValueId positions, int64_t half) {
  GraphBuilder& b = n.b;
  if (positions != kNoValue) {
    n.require(b.rank(cache) == 2 && b.rank(positions) == 2,
              "with position_ids the caches must be [positions, dim / 2]");
    cache = b.gather(cache, b.wrap_indices(positions, b.extent(cache, 0)), 0);
  }
  n.require(b.rank(cache) == 3 && b.extent(cache, 2) == half,
            "a cache must have half the rotated dimension");
  return b.unsqueeze(cache, {2});
}

}  // namespace

ValueId rotate_heads(OpContext& n, ValueId x, const Rotation& r) {
  GraphBuilder& b = n.b;
  const Shape shape = b.shape(x);
  int64_t rotated = r.dimension == 0 ? 2 * b.extent(r.cosine, -1) : r.dimension;
  n.require(rotated > 0 && rotated <= shape[3] && rotated % 2 == 0,
            "rotary_embedding_dim is out of range");
  int64_t half = rotated / 2;
  ValueId cosine = rotation(n, r.cosine, r.positions, half);
  ValueId sine = rotation(n, r.sine, r.positions, half);
  ValueId head = b.slice_axis(x, 3, 0, rotated);
  Shape pairs = {shape[0], shape[1], shape[2], half, 2};
  if (!r.interleaved) std::swap(pairs[3], pairs[4]);
  int64_t pair_axis = r.interleaved ? 4 : 3;
  head = b.reshape(head, pairs);
  ValueId first = b.pick(head, pair_axis, 0), second = b.pick(head, pair_axis, 1);
  ValueId real = b.sub(b.mul(cosine, first), b.mul(sine, second));
  ValueId imaginary = b.add(b.mul(sine, first), b.mul(cosine, second));
  ValueId turned =
      b.concat({b.unsqueeze(real, {pair_axis}), b.unsqueeze(imaginary, {pair_axis})}, pair_axis);
  Shape rotated_shape = shape;
  rotated_shape[3] = rotated;
  ValueId y = b.reshape(turned, rotated_shape);
  return rotated < shape[3] ? b.concat({y, b.slice_axis(x, 3, rotated, shape[3])}, 3) : y;
}

void translate_rotary_embedding(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  const Shape original = b.shape(x);
  bool packed = original.size() == 3;
  n.require(packed || original.size() == 4, "X must have three or four axes");
  if (packed) {
    int64_t heads = n.int_attr("num_heads", 0);
    n.require(heads > 0 && original[2] % heads == 0, "num_heads does not divide the hidden size");
    x = b.reshape(x, {original[0], original[1], heads, original[2] / heads});
  } else {
    x = b.swap_axes(x, 1, 2);
  }
  int64_t rotated = n.int_attr("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = b.extent(x, 3);
  ValueId y = rotate_heads(
      n, x,
      {n.input(1), n.input(2), n.optional_input(3), rotated, n.bool_attr("interleaved", false)});
  n.set_output(0, packed ? b.reshape(y, original) : b.swap_axes(y, 1, 2));
}

}  // namespace weft::onnx
