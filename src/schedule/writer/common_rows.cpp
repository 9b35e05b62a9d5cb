#include "schedule/writer/common_rows.h"

#include <algorithm>
#include <set>

namespace weft {

namespace {

/// A reduction that is made again may take this much more than the largest member of the group, or
/// than what a launch costs.
constexpr double kMostRepeated = 2, kFewPoints = 1024;

/// Points that a member walks, its reduction axes included.
double points_of(const GroupAxes& axes, size_t position) {
  double points = 1;
  for (const int a : axes.axis_of[position])
    points *= static_cast<double>(axes.axes[static_cast<size_t>(a)].extent);
  return points;
}

/// The first reduction that would be made again, for each place along axes that it lacks, so often
/// that this is most of the kernel's work; -1 where there is none.
int repeated_reduction(const GroupAxes& axes) {
  double most = kFewPoints;
  for (size_t p = 0; p < axes.axis_of.size(); ++p) most = std::max(most, points_of(axes, p));
  for (const int p : axes.reductions) {
    double points = points_of(axes, static_cast<size_t>(p));
    for (size_t a = 0; a < axes.axes.size(); ++a) {
      if (!axes.axes[a].reduced && !has_axis(axes, p, static_cast<int>(a)))
        points *= static_cast<double>(axes.axes[a].extent);
    }
    if (points > kMostRepeated * most) return p;
  }
  return -1;
}

}  // namespace

Decision holds_common_rows(const GroupSpace& space) {
  const GroupAxes& axes = space.axes();
  std::set<int> reduced;
  for (size_t a = 0; a < axes.axes.size(); ++a) {
    if (axes.axes[a].reduced && axes.axes[a].extent != 1) reduced.insert(static_cast<int>(a));
  }
  for (const int p : axes.reductions) {
    const TensorExpr& e = space.expr(p);
    std::set<int> own;
    for (int a = e.output_rank(); a < e.axis_count(); ++a) {
      const int axis = axes.axis_of[static_cast<size_t>(p)][static_cast<size_t>(a)];
      if (axes.axes[static_cast<size_t>(axis)].extent != 1) own.insert(axis);
    }
    if (own != reduced)
      return Decision::forbid(space.name_of(p) + " reduces other axes than the rest of the group");
    const bool arg = e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin;
    if (arg && e.reduce_extents.size() != 1)
      return Decision::forbid(space.name_of(p) + " takes a position over several axes");
  }
  if (const int p = repeated_reduction(axes); p >= 0) {
    return Decision::forbid(space.name_of(p) +
                            " lacks axes that the group runs over and would be reduced "
                            "again at each of their places");
  }
  for (int p = 0; p < space.size(); ++p) {
    if (!space.is_output(p)) continue;
    for (size_t a = 0; a < axes.axes.size(); ++a) {
      if (axes.axes[a].extent == 1 || reduced.count(static_cast<int>(a)) != 0) continue;
      if (!space.output_has_axis(p, static_cast<int>(a))) {
        return Decision::forbid(space.name_of(p) +
                                " must reach memory but lacks an axis of extent " +
                                std::to_string(axes.axes[a].extent) + " that the group runs over");
      }
    }
    // Inside the sweeps an output has all the reduced axes or none.
    size_t have = 0;
    for (const int a : reduced) have += space.output_has_axis(p, a) ? 1 : 0;
    if (have != 0 && have != reduced.size()) {
      return Decision::forbid(space.name_of(p) +
                              " must reach memory but runs along only some of the reduced axes");
    }
  }
  return Decision::allow();
}

Fit fits_rows(const GroupSpace& space) {
  if (space.has_contraction() && !space.streams_an_operand()) {
    return Fit::other_kind("a contraction is not stitched");
  }
  return Fit::of(holds_common_rows(space));
}

}  // namespace weft
