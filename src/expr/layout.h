#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/index_map.h"
#include "support/dtype.h"

namespace weft {

/// Where the elements of a tensor lie: an index map from logical to physical coordinates of the
/// family that weft uses. Physical axis p holds `floor(logical[axis] / divisor) mod extent`,
/// row-major over `axes`. Empty: the logical order.
///     channels-last of [N,C,H,W]: {0,1,N} {2,1,H} {3,1,W} {1,1,C}
///     panels of 48 columns of [K,N]: {1,48,N/48} {0,1,K} {1,1,48}
/// A physical extent may be rounded up (a last panel): what lies outside the logical shape is zero
/// in a packed constant.
struct Layout {
  struct Axis {
    int32_t axis = 0;
    int64_t divisor = 1;
    int64_t extent = 1;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> axes;

  bool is_row_major() const { return axes.empty(); }
  friend bool operator==(const Layout&, const Layout&) = default;
};

Layout permuted_layout(const Shape& shape, const std::vector<int64_t>& physical_order);
/// Physical extents (the logical shape for the row-major layout).
Shape physical_shape(const Layout& layout, const Shape& shape);
/// Offset in elements of logical coordinates `indices` from the start of the buffer, simplified
/// within `range`.
IndexExpr element_offset(const Layout& layout, const Shape& shape,
                         const std::vector<IndexExpr>& indices, const RangeOf& range);
/// Elements that the buffer has.
int64_t physical_size(const Layout& layout, const Shape& shape);
IndexMap as_index_map(const Layout& layout, const Shape& shape);
std::string print(const Layout& layout);

}  // namespace weft
