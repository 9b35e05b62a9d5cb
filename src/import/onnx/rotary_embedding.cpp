#include "import/onnx/attention.h"

namespace weft::onnx {
namespace {

/// A cache [positions, D/2] at each position, or [B, S, D/2] as it is: [B, S, 1, D/2].
ValueId rotation(OpContext& n, int index, int64_t half) {
  GraphBuilder& b = n.b;
  ValueId cache = n.input(index);
  if (n.has_input(3)) {
    n.require(b.rank(cache) == 2 && b.rank(n.input(3)) == 2,
              "with position_ids the caches must be [positions, dim / 2]");
    cache = b.gather(cache, b.wrap_indices(n.input(3), b.extent(cache, 0)), 0);
  }
  n.require(b.rank(cache) == 3 && b.extent(cache, 2) == half,
            "a cache must have half the rotated dimension");
  return b.unsqueeze(cache, {2});
}

}  // namespace

/// (x1, x2) -> (cos x1 - sin x2, sin x1 + cos x2) on the first rotary_embedding_dim elements of
/// each head, whose pairs are neighbours (interleaved) or half that dimension apart.
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
  const Shape shape = b.shape(x);  // [B, S, heads, head size]
  int64_t rotated = n.int_attr("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = shape[3];
  n.require(rotated > 0 && rotated <= shape[3] && rotated % 2 == 0,
            "rotary_embedding_dim is out of range");
  int64_t half = rotated / 2;
  ValueId cosine = rotation(n, 1, half), sine = rotation(n, 2, half);
  ValueId head = b.slice_axis(x, 3, 0, rotated);
  bool interleaved = n.bool_attr("interleaved", false);
  Shape pairs = {shape[0], shape[1], shape[2], half, 2};
  if (!interleaved) std::swap(pairs[3], pairs[4]);
  int64_t pair_axis = interleaved ? 4 : 3;
  head = b.reshape(head, pairs);
  ValueId first = b.pick(head, pair_axis, 0), second = b.pick(head, pair_axis, 1);
  ValueId real = b.sub(b.mul(cosine, first), b.mul(sine, second));
  ValueId imaginary = b.add(b.mul(sine, first), b.mul(cosine, second));
  ValueId turned =
      b.concat({b.unsqueeze(real, {pair_axis}), b.unsqueeze(imaginary, {pair_axis})}, pair_axis);
  Shape rotated_shape = shape;
  rotated_shape[3] = rotated;
  ValueId y = b.reshape(turned, rotated_shape);
  if (rotated < shape[3]) y = b.concat({y, b.slice_axis(x, 3, rotated, shape[3])}, 3);
  n.set_output(0, packed ? b.reshape(y, original) : b.swap_axes(y, 1, 2));
}

}  // namespace weft::onnx
