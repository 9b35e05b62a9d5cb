#include "group/collapse_axes.h"

#include <algorithm>
#include <utility>

#include "group/divide_axes.h"
#include "group/merge_axis_pairs.h"

namespace weft {

namespace {

/// Own axis of an expression for a common axis, -1 if it has none.
int own_axis(const GroupAxes& axes, size_t position, int axis) {
  const auto& list = axes.axis_of[position];
  const auto it = std::find(list.begin(), list.end(), axis);
  return it == list.end() ? -1 : static_cast<int>(it - list.begin());
}

/// Makes one axis of the common axes a (outer) and b wherever they occur.
class AxisMerge {
 public:
  AxisMerge(GroupCut& cut, const GroupAxes& axes, int a, int b)
      : cut_(cut),
        program_(cut.view.program),
        leaves_(cut.leaves),
        axes_(axes),
        a_(a),
        b_(b),
        inner_(axes.axes[static_cast<size_t>(b)].extent) {}

  /// False where some access walks them otherwise; nothing changes then.
  bool run() {
    for (size_t i = 0; i < program_.exprs.size(); ++i) {
      if (!claim_of(i)) return false;
    }
    // An expression that writes a merged tensor along other axes cannot follow.
    for (size_t i = 0; i < program_.exprs.size(); ++i) {
      const auto dim = pairs_.dims.find(program_.exprs[i].output);
      if (dim != pairs_.dims.end() && !dim->second.contains(own_axis(axes_, i, a_))) return false;
    }
    for (size_t i = 0; i < program_.exprs.size(); ++i) {
      const int pa = own_axis(axes_, i, a_), pb = own_axis(axes_, i, b_);
      if (pa >= 0) pairs_.variables[i] = {{pa, pb}};
    }
    merge_axis_pairs(cut_, pairs_);
    return true;
  }

 private:
  /// Dimensions `dim` and the next of a tensor become one; false where others of it do.
  bool claim(TensorId t, int dim) {
    std::set<int>& dims = pairs_.dims[t];
    dims.insert(dim);
    return dims.size() == 1;
  }

  /// Whether an expression walks the two side by side, in its output or in what it reduces, and all
  /// that it reads along them.
  bool claim_of(size_t i) {
    const TensorExpr& e = program_.exprs[i];
    const int pa = own_axis(axes_, i, a_), pb = own_axis(axes_, i, b_);
    if (pa < 0 && pb < 0) return true;
    if (pa < 0 || pb < 0) return false;
    const bool outputs = pa < e.output_rank();
    if (outputs != (pb < e.output_rank())) return false;
    if (outputs) {
      if (pb != pa + 1 || !claim(e.output, pa)) return false;
    } else if (e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin) {
      return false;
    }
    return std::ranges::all_of(leaves_[i], [&](const Leaf& leaf) {
      if (leaf.is_read()) return claim_read(leaf, pa, pb);
      return !uses_var(leaf.indices[0], pa) && !uses_var(leaf.indices[0], pb);
    });
  }

  bool claim_read(const Leaf& read, int pa, int pb) {
    int at_a = -1, at_b = -1;
    for (size_t d = 0; d < read.indices.size(); ++d) {
      const IndexExpr& index = read.indices[d];
      if (index.is_var() && index.var_id() == pa && at_a < 0) {
        at_a = static_cast<int>(d);
      } else if (index.is_var() && index.var_id() == pb && at_b < 0) {
        at_b = static_cast<int>(d);
      } else if (uses_var(index, pa) || uses_var(index, pb)) {
        return false;
      }
    }
    if (at_a < 0 && at_b < 0) return true;
    const Shape& shape = program_.tensors[static_cast<size_t>(read.symbol)].type.shape;
    return at_a >= 0 && at_b == at_a + 1 && shape[static_cast<size_t>(at_b)] == inner_ &&
           claim(read.symbol, at_a);
  }

  GroupCut& cut_;
  const TensorProgram& program_;
  const std::vector<std::vector<Leaf>>& leaves_;
  const GroupAxes& axes_;
  int a_, b_;
  int64_t inner_;
  AxisPairs pairs_;
};

/// Candidates: axes that stand side by side in some output or in what some expression reduces.
std::vector<std::pair<int, int>> neighbours(const GroupCut& cut, const GroupAxes& axes) {
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < cut.view.program.exprs.size(); ++i) {
    const TensorExpr& e = cut.view.program.exprs[i];
    const auto& own = axes.axis_of[i];
    for (int v = 0; v + 1 < e.axis_count(); ++v) {
      const std::pair pair(own[static_cast<size_t>(v)], own[static_cast<size_t>(v) + 1]);
      if (v + 1 != e.output_rank() && std::ranges::find(pairs, pair) == pairs.end())
        pairs.push_back(pair);
    }
  }
  std::ranges::sort(pairs);
  return pairs;
}

bool merge_one_pair(GroupCut& cut, const GroupAxes& axes) {
  return std::ranges::any_of(neighbours(cut, axes), [&](const auto& pair) {
    return AxisMerge(cut, axes, pair.first, pair.second).run();
  });
}

}  // namespace

Result<CollapsedGroup> collapse_axes(const TensorProgram& program, const Group& group,
                                     const CutOptions& options) {
  GroupCut cut = begin_cut(program, group, options);
  while (true) {
    WEFT_ASSIGN_OR_RETURN(GroupAxes axes,
                          derive_group_axes(cut.view.program, cut.view.group, cut.leaves));
    if (!merge_one_pair(cut, axes) &&
        !(options.divides && divide_one_axis(cut, axes, options.block_lanes)))
      return CollapsedGroup{finished(std::move(cut)), std::move(axes)};
  }
}

}  // namespace weft
