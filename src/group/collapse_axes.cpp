#include "group/collapse_axes.h"

#include <algorithm>
#include <utility>

#include "group/divide_axes.h"

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
      : program_(cut.view.program),
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
      const int dim = merged_dim_of(program_.exprs[i].output);
      if (dim >= 0 && own_axis(axes_, i, a_) != dim) return false;
    }
    for (size_t i = 0; i < program_.exprs.size(); ++i) merge_in(i);
    for (const auto& [t, dim] : merged_) {
      Shape& shape = program_.tensors[static_cast<size_t>(t)].type.shape;
      const auto d = static_cast<size_t>(dim);
      shape[d] *= shape[d + 1];
      shape.erase(shape.begin() + dim + 1);
    }
    return true;
  }

 private:
  /// The first of two dimensions of a tensor that become one; -1 where none do.
  int merged_dim_of(TensorId t) const {
    for (const auto& [tensor, dim] : merged_) {
      if (tensor == t) return dim;
    }
    return -1;
  }

  /// Dimensions `dim` and the next of a tensor become one; false where others of it do.
  bool claim(TensorId t, int dim) {
    const int known = merged_dim_of(t);
    if (known < 0) merged_.emplace_back(t, dim);
    return known < 0 || known == dim;
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

  void merge_indices(Leaf& read) const {
    const int dim = merged_dim_of(read.symbol);
    if (dim < 0) return;
    const auto d = static_cast<size_t>(dim);
    const int64_t extent = program_.tensors[static_cast<size_t>(read.symbol)].type.shape[d + 1];
    read.indices[d] = read.indices[d] * extent + read.indices[d + 1];
    read.indices.erase(read.indices.begin() + dim + 1);
  }

  /// What the variables of an expression are called afterwards: (pa, pb) becomes (0, merged), so
  /// that the index pa*extent + pb is the merged variable.
  static std::vector<IndexExpr> without(int pa, int pb, int count) {
    std::vector<IndexExpr> to;
    to.reserve(static_cast<size_t>(count));
    for (int v = 0; v < count; ++v) {
      const int target = v == pb ? pa : v;
      to.push_back(v == pa ? IndexExpr(0) : IndexExpr::var(target > pb ? target - 1 : target));
    }
    // With pb < pa (reductions listed the other way round) removing pb shifts pa.
    if (pb < pa) to[static_cast<size_t>(pb)] = IndexExpr::var(pa - 1);
    return to;
  }

  void merge_in(size_t i) {
    TensorExpr& e = program_.exprs[i];
    const int pa = own_axis(axes_, i, a_), pb = own_axis(axes_, i, b_);
    if (pa >= 0) rename_variables(without(pa, pb, e.axis_count()), leaves_[i]);
    for (Leaf& leaf : leaves_[i]) {
      if (leaf.is_read()) merge_indices(leaf);
    }
    if (pa < 0) return;
    if (!e.open.empty()) {
      e.open[static_cast<size_t>(pa)] = e.is_open(pa) || e.is_open(pb);
      e.open.erase(e.open.begin() + pb);
    }
    const bool output = pa < e.output_rank();
    std::vector<int64_t>& extents = output ? e.extents : e.reduce_extents;
    const int base = output ? 0 : e.output_rank();
    extents[static_cast<size_t>(pa - base)] *= inner_;
    extents.erase(extents.begin() + (pb - base));
  }

  TensorProgram& program_;
  std::vector<std::vector<Leaf>>& leaves_;
  const GroupAxes& axes_;
  int a_, b_;
  int64_t inner_;
  std::vector<std::pair<TensorId, int>> merged_;  ///< the first of two dims that become one
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
    if (!merge_one_pair(cut, axes) && !(options.divides && divide_one_axis(cut, axes)))
      return CollapsedGroup{finished(std::move(cut)), std::move(axes)};
  }
}

}  // namespace weft
