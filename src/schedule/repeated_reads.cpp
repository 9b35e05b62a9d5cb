#include "schedule/repeated_reads.h"

#include <algorithm>

#include "schedule/keep_loads.h"
#include "schedule/rounding.h"
#include "schedule/thread_tile.h"
#include "schedule/tile_builder.h"

namespace weft {

namespace {

int64_t extent_of(const GroupAxes& axes, int axis) {
  return axes.axes[static_cast<size_t>(axis)].extent;
}

/// Whether the reads' blocks keep a tensor that stays the same along these axes.
bool keeps(const RowLayout& layout, const RepeatedRead& read) {
  if (!layout.keeps) return false;
  return std::all_of(layout.free.begin() + static_cast<ptrdiff_t>(layout.kept_dims),
                     layout.free.end(), [&](int a) { return read.still.count(a) != 0; });
}

}  // namespace

std::vector<RepeatedRead> repeated_reads(const TensorProgram& program, const Group& group,
                                         const GroupAxes& axes, const std::vector<int>& free) {
  std::vector<RepeatedRead> out;
  for (size_t p = 0; p < group.exprs.size(); ++p) {
    visit(program.exprs[static_cast<size_t>(group.exprs[p])].body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || axes.producer(s.symbol) >= 0) return;
      if (!s.operands.empty() || s.fill != nullptr) return;
      const TensorType& type = program.tensors[static_cast<size_t>(s.symbol)].type;
      RepeatedRead read{s.symbol, 0, {}, 1};
      read.bytes =
          static_cast<double>(checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX));
      for (const int a : free) {
        if (stride_along(program, axes, static_cast<int>(p), s, a) == 0) read.still.insert(a);
      }
      for (size_t a = 0; a < axes.axes.size(); ++a) {
        const int axis = static_cast<int>(a);
        if (stride_along(program, axes, static_cast<int>(p), s, axis) == 0) continue;
        read.longest = std::max(read.longest, extent_of(axes, axis));
      }
      const auto known = std::find_if(out.begin(), out.end(), [&](const RepeatedRead& r) {
        return r.tensor == read.tensor && r.still == read.still;
      });
      if (!read.still.empty() && known == out.end()) out.push_back(std::move(read));
    });
  }
  return out;
}

std::set<int> axes_to_walk(const std::vector<RepeatedRead>& reads, const GroupAxes& axes) {
  std::set<int> best;
  double most = 0;
  for (const RepeatedRead& candidate : reads) {
    double times = 1, saved = 0;
    for (const int a : candidate.still) times *= static_cast<double>(extent_of(axes, a));
    for (const RepeatedRead& r : reads) {
      const bool along = std::includes(r.still.begin(), r.still.end(), candidate.still.begin(),
                                       candidate.still.end());
      if (along) saved += r.bytes * times;
    }
    if (saved <= most) continue;
    most = saved;
    best = candidate.still;
  }
  return best;
}

int64_t boxes_along(const RowLayout& layout, const GroupAxes& axes, int axis) {
  const int64_t box = std::max<int64_t>(digits_extent(layout.digits.at(axis)), 1);
  return ceil_div(extent_of(axes, axis), box);
}

int64_t boxes_of(const RowLayout& layout, const GroupAxes& axes) {
  int64_t boxes = layout.parts;
  for (const int a : layout.free) boxes *= boxes_along(layout, axes, a);
  return boxes;
}

double requested_bytes(const std::vector<RepeatedRead>& reads, const RowLayout& layout,
                       const GroupAxes& axes) {
  double sum = 0;
  for (const RepeatedRead& read : reads) {
    double bytes = read.bytes;
    if (keeps(layout, read)) {
      // Each block, and one more for each value of the other axes at which a block goes on.
      int64_t kept = 1, own = 1;
      for (size_t d = 0; d < layout.kept_dims; ++d) {
        const int64_t boxes = boxes_along(layout, axes, layout.free[d]);
        kept *= boxes;
        if (read.still.count(layout.free[d]) == 0) own *= boxes;
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
      for (const Place::Digit& d : layout.digits.at(a)) {
        if (d.level == PlaceLevel::kWarp) bytes *= static_cast<double>(d.extent);
      }
    }
    sum += bytes;
  }
  return sum;
}

}  // namespace weft
