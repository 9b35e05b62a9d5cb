#include "expr/layout.h"

#include "support/check.h"

namespace weft {

Layout permuted_layout(const Shape& shape, const std::vector<int64_t>& physical_order) {
  WEFT_CHECK(physical_order.size() == shape.size(), "a layout orders every axis");
  Layout layout;
  bool identity = true;
  for (size_t p = 0; p < physical_order.size(); ++p) {
    const int64_t axis = physical_order[p];
    identity = identity && axis == static_cast<int64_t>(p);
    layout.axes.push_back({static_cast<int32_t>(axis), 1, shape[static_cast<size_t>(axis)]});
  }
  return identity ? Layout{} : layout;
}

Shape physical_shape(const Layout& layout, const Shape& shape) {
  if (layout.is_row_major()) return shape;
  Shape physical;
  for (const Layout::Axis& axis : layout.axes) physical.push_back(axis.extent);
  return physical;
}

namespace {

/// floor(index / divisor) mod extent, without the mod where the digit is the axis's highest.
IndexExpr physical_index(const Layout& layout, const Shape& shape, size_t p,
                         const std::vector<IndexExpr>& indices) {
  const Layout::Axis& axis = layout.axes[p];
  const auto logical = static_cast<size_t>(axis.axis);
  IndexExpr index = floor_div(indices[logical], axis.divisor);
  int64_t covered = 0;
  if (__builtin_mul_overflow(axis.divisor, axis.extent, &covered) || covered >= shape[logical]) {
    return index;
  }
  return mod(index, axis.extent);
}

}  // namespace

IndexExpr element_offset(const Layout& layout, const Shape& shape,
                         const std::vector<IndexExpr>& indices, const RangeOf& range) {
  WEFT_CHECK(indices.size() == shape.size(), "an index for every axis");
  const Shape physical = physical_shape(layout, shape);
  IndexExpr offset(0);
  int64_t stride = 1;
  for (size_t p = physical.size(); p-- > 0;) {
    const IndexExpr index =
        layout.is_row_major() ? indices[p] : physical_index(layout, shape, p, indices);
    offset = offset + index * IndexExpr(stride);
    stride *= physical[p];
  }
  return simplify(offset, range);
}

int64_t physical_size(const Layout& layout, const Shape& shape) {
  const std::optional<int64_t> count = element_count(physical_shape(layout, shape));
  WEFT_CHECK(count.has_value(), "a layout of too many elements");
  return *count;
}

IndexMap as_index_map(const Layout& layout, const Shape& shape) {
  IndexMap map = identity_map(shape);
  if (layout.is_row_major()) return map;
  const std::vector<IndexExpr> logical = map.results;
  map.results.clear();
  for (size_t p = 0; p < layout.axes.size(); ++p) {
    map.results.push_back(physical_index(layout, shape, p, logical));
  }
  return simplify(map);
}

std::string print(const Layout& layout) {
  std::string text;
  for (const Layout::Axis& axis : layout.axes) {
    text += "{" + std::to_string(axis.axis) + "," + std::to_string(axis.divisor) + "," +
            std::to_string(axis.extent) + "}";
  }
  return text;
}

}  // namespace weft
