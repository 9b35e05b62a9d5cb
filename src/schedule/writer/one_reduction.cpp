#include "schedule/writer/one_reduction.h"

#include <algorithm>
#include <set>

#include "schedule/writer/common_rows.h"

namespace weft {

Decision holds_one_reduction(const GroupSpace& space) {
  const GroupAxes& axes = space.axes();
  const auto name = [&](size_t p) { return space.name_of(static_cast<int>(p)); };
  if (axes.reductions.size() != 1)
    return Decision::forbid("a contraction's kernel holds one reduction, not " +
                            std::to_string(axes.reductions.size()));
  const auto root = static_cast<size_t>(axes.reductions[0]);
  const TensorExpr& e = space.expr(axes.reductions[0]);
  if (e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin)
    return Decision::forbid(name(root) + " keeps positions");
  std::set<int> outputs;
  for (int d = 0; d < e.output_rank(); ++d)
    outputs.insert(axes.axis_of[root][static_cast<size_t>(d)]);
  std::string trouble;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kRead && axes.producer(s.symbol) >= 0) {
      trouble = name(root) + " would compute " +
                name(static_cast<size_t>(axes.producer(s.symbol))) +
                " again for each of its outputs";
    }
  });
  if (!trouble.empty()) return Decision::forbid(trouble);
  for (size_t p = 0; p < axes.axis_of.size(); ++p) {
    if (p == root) continue;
    for (size_t a = 0; a < axes.axis_of[p].size(); ++a) {
      const int axis = axes.axis_of[p][a];
      if (axes.axes[static_cast<size_t>(axis)].extent > 1 && outputs.count(axis) == 0) {
        return Decision::forbid(name(p) + " runs along an axis that " + name(root) +
                                " does not have");
      }
    }
    const bool stored = space.is_output(static_cast<int>(p));
    for (const int axis : outputs) {
      const auto& own = axes.axis_of[p];
      if (stored && axes.axes[static_cast<size_t>(axis)].extent > 1 &&
          std::find(own.begin(), own.end(), axis) == own.end()) {
        return Decision::forbid(name(p) + " must reach memory but lacks an axis of " + name(root));
      }
    }
  }
  return Decision::allow();
}

Fit fits_result_tile(const GroupSpace& space) {
  if (space.axes().reductions.empty()) return Fit::other_kind("nothing is reduced");
  if (const Decision holds = holds_one_reduction(space); !holds) {
    return space.has_contraction() ? Fit::of(holds) : Fit::other_kind(holds.reason());
  }
  if (space.wants_register_tile() || !holds_common_rows(space)) return Fit::builds();
  return Fit::other_kind("nothing is read again along an output axis");
}

}  // namespace weft
