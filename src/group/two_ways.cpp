#include "group/two_ways.h"

#include <algorithm>
#include <set>

#include "group/strides.h"

namespace weft {

namespace {

using AxisSet = std::set<int>;

class Partition {
 public:
  Partition(const TensorProgram& program, const Group& group, const GroupAxes& axes)
      : program_(program), group_(group), axes_(axes) {}

  Decision run(TwoWays* out) {
    std::set<AxisSet> ways;
    for (const int p : axes_.reductions) {
      const Combiner c = expr(p).combiner;
      if (c == Combiner::kArgMax || c == Combiner::kArgMin) {
        return Decision::forbid(name(p) + " takes a position where rows are reduced both ways");
      }
      if (!reduced_by(p).empty()) ways.insert(reduced_by(p));
    }
    if (ways.size() != 2) return Decision::forbid("the group does not reduce in two ways");
    const AxisSet &a = *ways.begin(), &b = *ways.rbegin();
    const bool a_first = contiguous_elements(a) >= contiguous_elements(b);
    // Rows lie along memory; what a row needs decides where nothing does.
    Decision first = take_apart(a_first ? a : b, a_first ? b : a, out);
    if (first || contiguous_elements(a) != contiguous_elements(b)) return first;
    return take_apart(a_first ? b : a, a_first ? a : b, out);
  }

 private:
  const TensorExpr& expr(int p) const {
    return program_.exprs[static_cast<size_t>(group_.exprs[static_cast<size_t>(p)])];
  }
  int count() const { return static_cast<int>(group_.exprs.size()); }
  const std::string& name(int p) const {
    return program_.tensors[static_cast<size_t>(expr(p).output)].name;
  }
  bool is_output(int p) const {
    return std::find(group_.outputs.begin(), group_.outputs.end(), expr(p).output) !=
           group_.outputs.end();
  }
  /// Own axes of extent > 1 from number `from` on, below `to`.
  AxisSet own_axes(int p, int from, int to) const {
    AxisSet out;
    for (int a = from; a < to; ++a) {
      const int axis = axes_.axis_of[static_cast<size_t>(p)][static_cast<size_t>(a)];
      if (axes_.axes[static_cast<size_t>(axis)].extent != 1) out.insert(axis);
    }
    return out;
  }
  AxisSet reduced_by(int p) const {
    return own_axes(p, expr(p).output_rank(), expr(p).axis_count());
  }
  AxisSet made_by(int p) const { return own_axes(p, 0, expr(p).output_rank()); }

  /// Of what is read from outside and lies one after another along one of the axes.
  int64_t contiguous_elements(const AxisSet& set) const {
    int64_t most = 0;
    for (int p = 0; p < count(); ++p) {
      visit(expr(p).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead || axes_.producer(s.symbol) >= 0) return;
        const bool along = std::any_of(set.begin(), set.end(), [&](int axis) {
          return stride_along(program_, axes_, p, s, axis) == 1;
        });
        const Shape& shape = program_.tensors[static_cast<size_t>(s.symbol)].type.shape;
        if (along) most = std::max(most, element_count(shape).value_or(0));
      });
    }
    return most;
  }

  Decision take_apart(const AxisSet& along, const AxisSet& across, TwoWays* out) const {
    if (across.size() != 1 || along.count(*across.begin()) != 0) {
      return Decision::forbid("rows are counted by several axes, or reduced by them");
    }
    *out = {};
    out->across = *across.begin();
    out->along.assign(along.begin(), along.end());
    out->part.assign(static_cast<size_t>(count()), TwoWays::Part::kRow);
    for (int p = 0; p < count(); ++p) {
      Decision fits = place(p, along, across, out);
      if (!fits) return fits;
    }
    return Decision::allow();
  }

  /// The part that a member belongs to; producers have theirs.
  Decision place(int p, const AxisSet& along, const AxisSet& across, TwoWays* out) const {
    bool of_all = false, of_row = false;
    visit(expr(p).body, [&](const Scalar& s) {
      const int from = s.kind == Scalar::Kind::kRead ? axes_.producer(s.symbol) : -1;
      if (from < 0) return;
      const bool row = out->part[static_cast<size_t>(from)] == TwoWays::Part::kRow;
      (row ? of_row : of_all) = true;
    });
    const AxisSet reduced = reduced_by(p), made = made_by(p);
    for (const int axis : made) {
      if (along.count(axis) == 0 && across.count(axis) == 0) {
        return Decision::forbid(name(p) + " runs along an axis that nothing reduces");
      }
    }
    auto& part = out->part[static_cast<size_t>(p)];
    if (of_all) {
      if (of_row || !reduced.empty() || made.count(out->across) != 0) {
        return Decision::forbid(name(p) + " needs what all rows make before a row is left");
      }
      part = TwoWays::Part::kTail;
    } else if (reduced == across) {
      part = TwoWays::Part::kAcross;
    }
    const AxisSet& wanted = part == TwoWays::Part::kRow ? across : along;
    const bool whole = std::includes(made.begin(), made.end(), wanted.begin(), wanted.end());
    // Elements of a row have all of its axes or none.
    const bool some =
        std::any_of(along.begin(), along.end(), [&](int axis) { return made.count(axis) != 0; });
    const bool all =
        std::all_of(along.begin(), along.end(), [&](int axis) { return made.count(axis) != 0; });
    if ((is_output(p) || part != TwoWays::Part::kRow) && (!whole || some != all)) {
      return Decision::forbid(name(p) + " lacks an axis that rows are reduced along or across");
    }
    return Decision::allow();
  }

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
};

}  // namespace

Decision find_two_ways(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                       TwoWays* out) {
  return Partition(program, group, axes).run(out);
}

std::optional<ReducedSizes> reduced_sizes(const TensorProgram& program, const Group& group) {
  std::optional<ReducedSizes> out;
  for (const ExprId id : group.exprs) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(id)];
    const int64_t reduced = element_count(e.reduce_extents).value_or(0);
    if (reduced == 1) continue;
    const int64_t results = element_count(e.extents).value_or(0);
    const auto sizes = std::minmax(results, reduced);
    if (!out) out = ReducedSizes{sizes};
    if (out->sizes != std::pair<int64_t, int64_t>(sizes)) return std::nullopt;
    (results <= reduced ? out->ascending : out->descending) = true;
  }
  return out;
}

}  // namespace weft
