#include "schedule/writer/one_reduction.h"

#include <algorithm>
#include <set>

#include "schedule/writer/common_rows.h"

namespace weft {

namespace {

std::set<int> axes_of(const GroupSpace& space, int position, int begin, int end) {
  std::set<int> out;
  for (int d = begin; d < end; ++d) {
    const int axis = space.axes().axis_of[static_cast<size_t>(position)][static_cast<size_t>(d)];
    if (space.axes().axes[static_cast<size_t>(axis)].extent > 1) out.insert(axis);
  }
  return out;
}

/// Whether the reduction computes nothing that the group makes again for each of its outputs.
Decision reads_inputs_alone(const GroupSpace& space, int root) {
  const GroupAxes& axes = space.axes();
  std::string trouble;
  visit(space.expr(root).body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kRead && axes.producer(s.symbol) >= 0) {
      trouble = space.name_of(root) + " would compute " + space.name_of(axes.producer(s.symbol)) +
                " again for each of its outputs";
    }
  });
  return trouble.empty() ? Decision::allow() : Decision::forbid(trouble);
}

}  // namespace

Decision holds_reductions_of_one_tile(const GroupSpace& space) {
  const GroupAxes& axes = space.axes();
  const int first = axes.reductions[0];
  const TensorExpr& e = space.expr(first);
  const std::set<int> outputs = axes_of(space, first, 0, e.output_rank());
  const std::set<int> reduced = axes_of(space, first, e.output_rank(), e.axis_count());
  std::set<int> roots;
  for (const int root : axes.reductions) {
    const TensorExpr& r = space.expr(root);
    roots.insert(root);
    if (r.combiner == Combiner::kArgMax || r.combiner == Combiner::kArgMin)
      return Decision::forbid(space.name_of(root) + " keeps positions");
    if (const Decision inputs = reads_inputs_alone(space, root); !inputs) return inputs;
    if (axes_of(space, root, 0, r.output_rank()) != outputs ||
        axes_of(space, root, r.output_rank(), r.axis_count()) != reduced)
      return Decision::forbid(space.name_of(root) + " has other axes than " + space.name_of(first));
  }
  for (int p = 0; p < space.size(); ++p) {
    if (roots.contains(p)) continue;
    const std::vector<int>& own = axes.axis_of[static_cast<size_t>(p)];
    for (const int axis : own) {
      if (axes.axes[static_cast<size_t>(axis)].extent > 1 && !outputs.contains(axis)) {
        return Decision::forbid(space.name_of(p) + " runs along an axis that " +
                                space.name_of(first) + " does not have");
      }
    }
    for (const int axis : outputs) {
      if (space.is_output(p) && std::find(own.begin(), own.end(), axis) == own.end()) {
        return Decision::forbid(space.name_of(p) + " must reach memory but lacks an axis of " +
                                space.name_of(first));
      }
    }
  }
  return Decision::allow();
}

Decision holds_one_reduction(const GroupSpace& space) {
  if (space.axes().reductions.size() != 1)
    return Decision::forbid("a contraction's kernel holds one reduction, not " +
                            std::to_string(space.axes().reductions.size()));
  return holds_reductions_of_one_tile(space);
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
