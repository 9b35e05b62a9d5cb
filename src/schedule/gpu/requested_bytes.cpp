#include "schedule/gpu/requested_bytes.h"

#include <algorithm>

#include "group/repeated_reads.h"
#include "schedule/gpu/check_choice.h"
#include "support/rounding.h"
#include "tile/rewrite/keep_loads.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

int64_t extent_of(const GroupAxes& axes, int axis) {
  return axes.axes[static_cast<size_t>(axis)].extent;
}

/// Whether the reads' blocks keep a tensor that stays the same along these axes.
bool keeps(const RowsChoice& layout, const RepeatedRead& read) {
  if (!layout.keeps) return false;
  return std::all_of(layout.free.begin() + layout.kept_dims, layout.free.end(),
                     [&](int a) { return read.still.count(a) != 0; });
}

}  // namespace

int64_t boxes_along(const RowsChoice& layout, const GroupAxes& axes, int axis) {
  const int64_t box = std::max<int64_t>(digits_extent(digits_along(layout.digits, axis)), 1);
  return ceil_div(extent_of(axes, axis), box);
}

int64_t boxes_of(const RowsChoice& layout, const GroupAxes& axes) {
  int64_t boxes = layout.parts;
  for (const int a : layout.free) boxes *= boxes_along(layout, axes, a);
  return boxes;
}

double requested_bytes(const std::vector<RepeatedRead>& reads, const RowsChoice& layout,
                       const GroupAxes& axes) {
  double sum = 0;
  for (const RepeatedRead& read : reads) {
    double bytes = read.bytes;
    if (keeps(layout, read)) {
      // Each block, and one more for each value of the other axes at which a block goes on.
      int64_t kept = 1, own = 1;
      for (int64_t d = 0; d < layout.kept_dims; ++d) {
        const int axis = layout.free[static_cast<size_t>(d)];
        const int64_t boxes = boxes_along(layout, axes, axis);
        kept *= boxes;
        if (read.still.count(axis) == 0) own *= boxes;
      }
      const int64_t blocks = layout.blocks > 0 ? layout.blocks : boxes_of(layout, axes);
      if (layout.together > 1 && own == 1 && part_of_cluster(read.longest, layout.together) > 0) {
        sum += bytes * static_cast<double>(ceil_div(blocks, layout.together));
        continue;
      }
      sum += bytes / static_cast<double>(own) * static_cast<double>(blocks + kept - 1);
      continue;
    }
    for (const int a : read.still) {
      bytes *= static_cast<double>(boxes_along(layout, axes, a));
      for (const Place::Digit& d : digits_along(layout.digits, a)) {
        if (d.level == PlaceLevel::kWarp) bytes *= static_cast<double>(d.extent);
      }
    }
    sum += bytes;
  }
  return sum;
}

}  // namespace weft
