#include "group/divide_axes.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <utility>

#include "index/index_terms.h"

namespace weft {

namespace {

int own_axis(const GroupAxes& axes, size_t position, int axis) {
  const auto& list = axes.axis_of[position];
  const auto it = std::ranges::find(list, axis);
  return it == list.end() ? -1 : static_cast<int>(it - list.begin());
}

bool divides(const IndexExpr& e) { return e.op() == IndexOp::kFloorDiv || e.op() == IndexOp::kMod; }

/// Whether something in an index divides what depends on a variable.
bool divides_along(const IndexExpr& e, int var) {
  if (e.is_const() || e.is_var()) return false;
  if (divides(e) && uses_var(e.lhs(), var)) return true;
  return divides_along(e.lhs(), var) || divides_along(e.rhs(), var);
}

/// Makes axes of `axis` / `inner` and `axis` % `inner` wherever the axis occurs.
class AxisDivision {
 public:
  AxisDivision(GroupCut& cut, const GroupAxes& axes, int axis, int64_t inner)
      : program_(cut.view.program),
        leaves_(cut.leaves),
        axes_(axes),
        axis_(axis),
        inner_(inner),
        extent_(axes.axes[static_cast<size_t>(axis)].extent) {}

  /// False where some access walks it otherwise; nothing changes then.
  bool run() {
    for (size_t i = 0; i < program_.exprs.size(); ++i) {
      const int own = own_axis(axes_, i, axis_);
      if (own >= program_.exprs[i].output_rank()) return false;
      if (own >= 0) divided_.insert({program_.exprs[i].output, own});
    }
    find_inputs();
    std::vector<std::vector<Leaf>> leaves = leaves_;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!divide_leaves(i, leaves[i])) return false;
    }
    leaves_ = std::move(leaves);
    for (size_t i = 0; i < program_.exprs.size(); ++i) divide_in(i);
    for (const auto& [t, dim] : divided_) {
      Shape& shape = program_.tensors[static_cast<size_t>(t)].type.shape;
      shape[static_cast<size_t>(dim)] /= inner_;
      shape.insert(shape.begin() + dim + 1, inner_);
    }
    return true;
  }

 private:
  bool is_axis(size_t i, const IndexExpr& index) const {
    const int own = own_axis(axes_, i, axis_);
    return own >= 0 && index.is_var() && index.var_id() == own;
  }

  /// Tensors from outside of which all reads have the axis in the same place get both, too.
  void find_inputs() {
    std::set<std::pair<TensorId, int>> found, otherwise;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      for (const Leaf& leaf : leaves_[i]) {
        if (!leaf.is_read() || axes_.producer(leaf.symbol) >= 0) continue;
        for (size_t d = 0; d < leaf.indices.size(); ++d) {
          const std::pair place(static_cast<TensorId>(leaf.symbol), static_cast<int>(d));
          const int64_t there = program_.tensors[static_cast<size_t>(leaf.symbol)].type.shape[d];
          (is_axis(i, leaf.indices[d]) && there == extent_ ? found : otherwise).insert(place);
        }
      }
    }
    for (const auto& place : found) {
      const bool twice = std::ranges::any_of(
          found, [&](const auto& p) { return p.first == place.first && p != place; });
      if (!twice && !otherwise.contains(place)) divided_.insert(place);
    }
  }

  bool divide_leaves(size_t i, std::vector<Leaf>& leaves) const {
    const TensorExpr& e = program_.exprs[i];
    const int own = own_axis(axes_, i, axis_);
    std::vector<IndexExpr> to;
    std::vector<int64_t> extents;  // of the variables afterwards
    for (int v = 0; v < e.axis_count(); ++v) {
      const int there = own >= 0 && v > own ? v + 1 : v;
      to.push_back(v == own ? IndexExpr::var(own) * inner_ + IndexExpr::var(own + 1)
                            : IndexExpr::var(there));
      extents.push_back(v == own ? extent_ / inner_ : e.range(v).hi + 1);
      if (v == own) extents.push_back(inner_);
    }
    const auto range = [&](int id) -> Interval {
      if (id >= kRuntimeIndexBase) return kUnbounded;
      return {0, extents[static_cast<size_t>(id)] - 1};
    };
    for (Leaf& leaf : leaves) {
      for (size_t d = leaf.indices.size(); d-- > 0;) {
        const auto at = static_cast<ptrdiff_t>(d);
        if (leaf.is_read() && divided_.contains({leaf.symbol, static_cast<int>(d)})) {
          if (!is_axis(i, leaf.indices[d])) return false;
          leaf.indices[d] = IndexExpr::var(own);
          leaf.indices.insert(leaf.indices.begin() + at + 1, IndexExpr::var(own + 1));
          continue;
        }
        if (own < 0) continue;
        IndexExpr& index = leaf.indices[d];
        index = substitute(index, [&](int v) {
          return v < kRuntimeIndexBase ? to[static_cast<size_t>(v)] : IndexExpr::var(v);
        });
        if (uses_var(index, own) || uses_var(index, own + 1)) index = simplify(index, range);
        if (divides_along(index, own) || divides_along(index, own + 1)) return false;
      }
    }
    return true;
  }

  void divide_in(size_t i) {
    TensorExpr& e = program_.exprs[i];
    const int own = own_axis(axes_, i, axis_);
    if (own < 0) return;
    if (!e.open.empty()) e.open.insert(e.open.begin() + own, false);
    e.extents[static_cast<size_t>(own)] /= inner_;
    e.extents.insert(e.extents.begin() + own + 1, inner_);
  }

  TensorProgram& program_;
  std::vector<std::vector<Leaf>>& leaves_;
  const GroupAxes& axes_;
  int axis_;
  int64_t inner_, extent_;
  std::set<std::pair<TensorId, int>> divided_;  ///< dimensions of tensors that become two
};

}  // namespace

bool divide_one_axis(GroupCut& cut, const GroupAxes& axes, int64_t block_lanes) {
  for (size_t i = 0; i < cut.leaves.size(); ++i) {
    const TensorExpr& e = cut.view.program.exprs[i];
    if (!e.is_contraction) continue;
    for (int v = 0; v < e.output_rank(); ++v) {
      const int axis = axes.axis_of[i][static_cast<size_t>(v)];
      const GroupAxes::Axis& a = axes.axes[static_cast<size_t>(axis)];
      for (const Leaf& leaf : cut.leaves[i]) {
        if (!leaf.is_read() || a.open) continue;
        for (const IndexExpr& index : leaf.indices) {
          const int64_t by = divisor_of(index, v);
          const bool stays = by <= block_lanes && std::has_single_bit(static_cast<uint64_t>(by));
          if (by <= 1 || stays || by >= a.extent || a.extent % by != 0) continue;
          if (AxisDivision(cut, axes, axis, by).run()) return true;
        }
      }
    }
  }
  return false;
}

}  // namespace weft
