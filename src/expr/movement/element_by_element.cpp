#include "expr/movement/element_by_element.h"

namespace weft {

bool is_element_by_element(const TensorExpr& reader, const Scalar& read, const Shape& shape) {
  int last = -1;
  for (size_t a = 0; a < shape.size(); ++a) {
    const IndexExpr& index = read.indices[a];
    if (shape[a] == 1 && index.is_const(0)) continue;
    if (!index.is_var() || index.var_id() >= reader.axis_count()) return false;
    if (reader.range(index.var_id()).hi + 1 != shape[a]) return false;
    if (index.var_id() <= last) return false;
    last = index.var_id();
  }
  return true;
}

}  // namespace weft
