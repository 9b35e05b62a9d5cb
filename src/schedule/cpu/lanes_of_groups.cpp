#include "schedule/cpu/lanes_of_groups.h"

#include <algorithm>
#include <numeric>

#include "group/strides.h"
#include "index/index_terms.h"
#include "index/index_units.h"
#include "support/rounding.h"

namespace weft {

namespace {

bool is_boxed(const GroupSpace& space, int axis) {
  return space.frame() && !space.frame()->axes[static_cast<size_t>(axis)].begin.is_const(0);
}

/// Whether each vector of `lanes` lanes holds whole groups, and reads no more elements than it has
/// lanes.
bool is_one_load(const GroupSpace& space, const RootRead& read, int axis, int64_t lanes) {
  const TensorExpr& e = space.expr(read.root);
  const auto& own = space.axes().axis_of[static_cast<size_t>(read.root)];
  if (is_boxed(space, axis) && unit_of_boxes(*space.frame(), axis) % lanes != 0) return false;
  int var = -1;
  for (int v = 0; v < e.axis_count(); ++v) {
    if (own[static_cast<size_t>(v)] == axis) var = v;
  }
  return std::ranges::all_of(read.scalar->indices, [&](const IndexExpr& index) {
    if (!uses_var(index, var)) return true;
    const int64_t group = divisor_of(index, var);
    const Interval reach = range_of(index, [&](int id) -> Interval {
      if (id == var) return {0, lanes - 1};
      return e.range(id);
    });
    return group > 1 && lanes % group == 0 && reach.lo == 0 && reach.hi < lanes;
  });
}

}  // namespace

int64_t unit_of_boxes(const BlockFrame& frame, int axis) {
  return unit_of(frame.axes[static_cast<size_t>(axis)].begin,
                 [&](int loop) { return frame.loops[static_cast<size_t>(loop)]; });
}

bool is_one_element(const GroupSpace& space, int root, const Scalar& read, int axis,
                    int64_t lanes) {
  const TensorExpr& e = space.expr(root);
  const auto& own = space.axes().axis_of[static_cast<size_t>(root)];
  const int64_t extent = space.axes().axes[static_cast<size_t>(axis)].extent;
  const int vector = e.axis_count(), lane = vector + 1;
  // A stage's box, the extent of which this is, may stand anywhere between groups.
  const bool boxed = is_boxed(space, axis);
  const int64_t unit = boxed ? std::gcd(unit_of_boxes(*space.frame(), axis), lanes) : lanes;
  const auto range = [&](int id) -> Interval {
    if (id == vector) return {0, boxed ? kUnbounded.hi : ceil_div(extent, lanes) - 1};
    return id == lane ? Interval{0, lanes - 1} : e.range(id);
  };
  return std::ranges::none_of(read.indices, [&](const IndexExpr& index) {
    const IndexExpr in_vectors = substitute(index, [&](int id) {
      if (id >= e.axis_count() || own[static_cast<size_t>(id)] != axis) return IndexExpr::var(id);
      return IndexExpr::var(vector) * IndexExpr(unit) + IndexExpr::var(lane);
    });
    return uses_var(simplify(in_vectors, range), lane);
  });
}

double steps_of_an_element(const GroupSpace& space, const RootRead& read, int row_axis, int axis) {
  constexpr int64_t kMostTaps = 8;
  const auto along = [&](int a) {
    return stride_along(space.program(), space.axes(), read.root, *read.scalar, a);
  };
  const int64_t taps = space.axes().axes[static_cast<size_t>(axis)].extent;
  const int64_t row = along(row_axis), tap = along(axis);
  if (taps > kMostTaps || row <= 0 || tap <= 0) return 1;
  if (tap % row == 0) return tap / row < taps ? static_cast<double>(taps) : 1;
  if (row % tap != 0) return 1;
  return std::max(1.0,
                  static_cast<double>(taps) * static_cast<double>(tap) / static_cast<double>(row));
}

int64_t lanes_of_groups(const GroupSpace& space, std::span<const RootRead> reads, int vec_axis,
                        int64_t most, double shared) {
  constexpr int64_t kFewest = 4;
  constexpr double kShared = 2;
  int64_t within = most;
  const auto all_within = [&](int64_t lanes) {
    return std::ranges::all_of(reads, [&](const RootRead& r) {
      return is_one_element(space, r.root, *r.scalar, vec_axis, lanes);
    });
  };
  while (within >= kFewest && !all_within(within)) within /= 2;
  if (within < kFewest) return most;
  const bool pays = most > 2 * within || (most == 2 * within && shared >= kShared);
  const bool permuted = pays && std::ranges::all_of(reads, [&](const RootRead& r) {
                          return is_one_load(space, r, vec_axis, most);
                        });
  return permuted ? most : within;
}

}  // namespace weft
