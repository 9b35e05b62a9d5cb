#include "import/onnx/attention.h"

#include "import/builder/heads.h"

namespace weft::onnx {
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
      b, x,
      {n.input(1), n.input(2), n.optional_input(3), rotated, n.bool_attr("interleaved", false)});
  n.set_output(0, packed ? b.reshape(y, original) : b.swap_axes(y, 1, 2));
}

}  // namespace weft::onnx
