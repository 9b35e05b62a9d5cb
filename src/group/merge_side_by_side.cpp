#include "group/merge_side_by_side.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "group/merge_axis_pairs.h"

namespace weft {

namespace {

/// What has to become one with two variables of an expression.
class Closure {
 public:
  explicit Closure(const GroupCut& cut) : program_(cut.view.program), leaves_(cut.leaves) {}

  /// Nothing where something walks a pair of them otherwise.
  std::optional<AxisPairs> of(size_t expr, int outer) && {
    if (!claim_variables(expr, outer)) return std::nullopt;
    while (!open_.empty()) {
      const auto [tensor, dim] = open_.back();
      open_.pop_back();
      if (!claim_accesses(tensor, dim)) return std::nullopt;
    }
    return std::move(pairs_);
  }

 private:
  static int64_t extent(const TensorExpr& e, int v) { return e.range(v).hi + 1; }

  bool claim_variables(size_t i, int outer) {
    const TensorExpr& e = program_.exprs[i];
    const int inner = outer + 1;
    std::map<int, int>& own = pairs_.variables[i];
    if (own.contains(outer - 1) || own.contains(inner)) return false;
    if (!own.emplace(outer, inner).second) return true;
    const bool reduced = outer >= e.output_rank();
    if (inner >= (reduced ? e.axis_count() : e.output_rank()) || e.is_open(outer) ||
        e.is_open(inner) || (reduced && combiner_is_arg(e.combiner)))
      return false;
    if (!reduced && !claim_dims(e.output, outer)) return false;
    return std::ranges::all_of(leaves_[i],
                               [&](const Leaf& leaf) { return claim_leaf(e, leaf, outer); });
  }

  bool claim_leaf(const TensorExpr& e, const Leaf& leaf, int outer) {
    for (size_t d = 0; d < leaf.indices.size(); ++d) {
      const IndexExpr& index = leaf.indices[d];
      if (!uses_var(index, outer) && !uses_var(index, outer + 1)) continue;
      if (is_pair(e, leaf, d, outer)) {
        if (!claim_dims(leaf.symbol, static_cast<int>(d))) return false;
        ++d;
      } else if (!is_flat(index, outer, extent(e, outer + 1))) {
        return false;
      }
    }
    return true;
  }
  bool is_pair(const TensorExpr& e, const Leaf& leaf, size_t d, int outer) const {
    if (!leaf.is_read() || d + 1 == leaf.indices.size()) return false;
    const IndexExpr &a = leaf.indices[d], &b = leaf.indices[d + 1];
    const Shape& shape = program_.tensors[static_cast<size_t>(leaf.symbol)].type.shape;
    return a.is_var() && a.var_id() == outer && b.is_var() && b.var_id() == outer + 1 &&
           shape[d + 1] == extent(e, outer + 1);
  }
  /// c * (outer * inner_extent + inner) + …
  static bool is_flat(const IndexExpr& index, int outer, int64_t inner_extent) {
    AffineForm form;
    return as_affine(index, &form) && form.coefficient(outer + 1) != 0 &&
           form.coefficient(outer) == inner_extent * form.coefficient(outer + 1);
  }

  bool claim_dims(TensorId t, int dim) {
    std::set<int>& own = pairs_.dims[t];
    if (own.contains(dim - 1) || own.contains(dim + 1)) return false;
    if (own.insert(dim).second) open_.emplace_back(t, dim);
    return true;
  }

  /// All that make or read the tensor.
  bool claim_accesses(TensorId t, int dim) {
    for (size_t i = 0; i < program_.exprs.size(); ++i) {
      const TensorExpr& e = program_.exprs[i];
      if (e.output == t && !claim_variables(i, dim)) return false;
      for (const Leaf& leaf : leaves_[i]) {
        if (leaf.symbol != t) continue;
        const auto d = static_cast<size_t>(dim);
        const IndexExpr &a = leaf.indices[d], &b = leaf.indices[d + 1];
        if (a.is_const() && b.is_const()) continue;
        if (!a.is_var() || a.var_id() >= kRuntimeIndexBase || !is_pair(e, leaf, d, a.var_id()) ||
            !claim_variables(i, a.var_id()))
          return false;
      }
    }
    return true;
  }

  const TensorProgram& program_;
  const std::vector<std::vector<Leaf>>& leaves_;
  AxisPairs pairs_;
  std::vector<std::pair<TensorId, int>> open_;  ///< whose accesses are not claimed yet
};

bool merge_one(GroupCut& cut) {
  for (size_t i = 0; i < cut.view.program.exprs.size(); ++i) {
    const TensorExpr& e = cut.view.program.exprs[i];
    for (int v = e.is_contraction ? 0 : e.output_rank(); v + 1 < e.axis_count(); ++v) {
      if (v + 1 == e.output_rank()) continue;
      const auto pairs = Closure(cut).of(i, v);
      if (!pairs) continue;
      merge_axis_pairs(cut, *pairs);
      return true;
    }
  }
  return false;
}

}  // namespace

void merge_side_by_side(GroupCut& cut) {
  while (merge_one(cut)) {
  }
}

}  // namespace weft
