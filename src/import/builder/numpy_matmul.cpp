#include "import/builder/numpy_matmul.h"

namespace weft::onnx {

ValueId numpy_matmul(GraphBuilder& b, ValueId x, ValueId y, DType result) {
  if (b.rank(x) == 0 || b.rank(y) == 0) refuse_invalid("matmul does not take scalars");
  bool row = b.rank(x) == 1, column = b.rank(y) == 1;
  if (row) x = b.unsqueeze(x, {0});
  if (column) y = b.unsqueeze(y, {1});
  ValueId product = b.matmul(x, y, result);
  if (column) product = b.squeeze(product, {-1});
  if (row) product = b.squeeze(product, {column ? -1 : -2});
  return product;
}

}  // namespace weft::onnx
