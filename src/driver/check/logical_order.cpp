#include "driver/check/logical_order.h"

#include <algorithm>
#include <vector>

namespace weft {

HostTensor in_logical_order(const HostTensor& physical, const Tensor& tensor) {
  const Shape known = declared_type(tensor).shape;
  if (tensor.layout.is_row_major()) return physical.reshaped(known);
  HostTensor out(tensor.type.dtype, tensor.type.shape);
  const Shape& shape = tensor.type.shape;
  std::vector<IndexExpr> indices;
  for (size_t d = 0; d < shape.size(); ++d) indices.push_back(IndexExpr::var(static_cast<int>(d)));
  const IndexExpr offset = element_offset(tensor.layout, shape, indices, [&](int d) {
    return Interval{0, shape[static_cast<size_t>(d)] - 1};
  });
  const auto bytes = static_cast<size_t>(byte_size(tensor.type.dtype));
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0;) {
      at[d] = rest % shape[d];
      rest /= shape[d];
    }
    const int64_t from = evaluate(offset, [&](int d) { return at[static_cast<size_t>(d)]; });
    std::copy_n(physical.raw() + static_cast<size_t>(from) * bytes, bytes,
                out.mutable_raw() + static_cast<size_t>(i) * bytes);
  }
  return out.reshaped(known);
}

}  // namespace weft
