#include "expr/products/pack_factors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "support/rounding.h"

namespace weft {

namespace {

constexpr int64_t kFewestSteps = 16, kFewestColumns = 16, kFewestRows = 64;

/// The only axis of the sum that has several steps; -1 where there are others.
int axis_of_sum(const TensorExpr& e) {
  int axis = -1;
  for (int v = e.output_rank(); v < e.axis_count(); ++v) {
    if (e.range(v).hi == 0) continue;
    if (axis >= 0) return -1;
    axis = v;
  }
  return axis;
}

/// The variables of `e` that a scalar changes with; nothing where it changes with what is read.
std::set<int> variables_of(const ScalarRef& s) {
  std::set<int> used;
  const auto add = [&](const IndexExpr& index) {
    for (const int v : variables(index)) used.insert(v);
  };
  visit(s, [&](const Scalar& n) {
    if (n.kind == Scalar::Kind::kIndex) add(n.index);
    for (const IndexExpr& index : n.indices) add(index);
  });
  return used;
}

/// Whether the variable is the index of the last axis, and of no other.
bool is_last_index(const Scalar& read, int v) {
  for (size_t d = 0; d + 1 < read.indices.size(); ++d) {
    if (uses_var(read.indices[d], v)) return false;
  }
  return !read.indices.empty() && read.indices.back().is_var() && read.indices.back().var_id() == v;
}

/// A tensor over some of an expression's output axes and others behind them.
class OwnTensor {
 public:
  OwnTensor(const TensorExpr& e, const ScalarRef& body) {
    for (const int v : variables_of(body)) {
      if (v < e.output_rank()) kept_.push_back(v);
    }
    std::erase_if(kept_, [&](int v) { return e.range(v).hi == 0; });
    for (const int v : kept_) {
      made_.extents.push_back(e.extents[static_cast<size_t>(v)]);
      indices_.push_back(IndexExpr::var(v));
    }
    made_.origins = e.origins;
  }

  void leave_out(int v) {
    const auto at = std::ranges::find(kept_, v);
    if (at == kept_.end()) return;
    made_.extents.erase(made_.extents.begin() + (at - kept_.begin()));
    indices_.erase(indices_.begin() + (at - kept_.begin()));
    kept_.erase(at);
  }
  /// An axis; its variable in the tensor's own expression.
  int add_axis(int64_t extent, IndexExpr read_at) {
    made_.extents.push_back(extent);
    indices_.push_back(std::move(read_at));
    return static_cast<int>(made_.extents.size()) - 1;
  }
  /// An output axis's variable in the tensor's own expression; 0 of those with one step.
  IndexExpr own(int v) const {
    const auto at = std::ranges::find(kept_, v);
    return at == kept_.end() ? IndexExpr(0) : IndexExpr::var(static_cast<int>(at - kept_.begin()));
  }

  /// The tensor's expression, of `body` where `inside` holds and of zeros elsewhere; what reads it.
  ScalarRef finish(ScalarRef body, const ScalarRef& inside, const std::string& name,
                   NewTensors& new_tensors, const std::function<void(TensorExpr)>& add) {
    const DType type = body->type;
    if (inside) {
      const ScalarValue zero = is_float(type) ? float_value(type, 0) : int_value(type, 0);
      body =
          scalar_apply(ScalarOp::kSelect, {inside, std::move(body), scalar_constant(zero)}, type);
    }
    made_.body = std::move(body);
    made_.accumulator = type;
    made_.output = new_tensors.add(name, {type, made_.extents}, Tensor::Kind::kIntermediate);
    const TensorId t = made_.output;
    add(std::move(made_));
    return scalar_read(t, type, indices_);
  }

  RangeOf range() const {
    return [this](int id) -> Interval {
      if (id >= kRuntimeIndexBase) return kUnbounded;
      return {0, made_.extents[static_cast<size_t>(id)] - 1};
    };
  }

 private:
  TensorExpr made_;
  std::vector<int> kept_;
  std::vector<IndexExpr> indices_;  ///< at which the contraction reads it
};

/// A body over other variables, its indices simplified.
ScalarRef renamed(const ScalarRef& body, const std::function<IndexExpr(int)>& to,
                  const RangeOf& range) {
  return rewrite(body, to, [&](const ScalarRef& read) {
    std::vector<IndexExpr> indices;
    for (const IndexExpr& index : read->indices) indices.push_back(simplify(index, range));
    return scalar_read(read->symbol, read->type, std::move(indices), read->operands, read->fill);
  });
}

}  // namespace

bool can_pack_factors(const TensorExpr& e, const Scalar& left, const ScalarRef& right) {
  const int k = axis_of_sum(e), n = e.output_rank() - 1;
  if (k < 0 || n < 0 || e.range(k).hi + 1 < kFewestSteps || e.range(n).hi + 1 < kFewestColumns ||
      !left.operands.empty() || left.fill || !is_last_index(left, k))
    return false;
  const std::set<int> of_right = variables_of(right);
  const auto runs = [&](int v) {
    return std::ranges::any_of(left.indices, [v](const IndexExpr& i) { return uses_var(i, v); });
  };
  int64_t rows = 1;
  for (int v = 0; v < n; ++v) {
    if (runs(v) && !of_right.contains(v)) rows *= e.range(v).hi + 1;
  }
  return !runs(n) && of_right.contains(n) && of_right.contains(k) && rows >= kFewestRows &&
         *of_right.rbegin() < kRuntimeIndexBase;
}

PackedFactors pack_factors(const TensorExpr& e, const ScalarRef& left, const ScalarRef& right,
                           int64_t depth, const std::string& name, NewTensors& new_tensors,
                           const std::function<void(TensorExpr)>& add) {
  const int k = axis_of_sum(e), n = e.output_rank() - 1;
  const int64_t steps = e.range(k).hi + 1, groups = ceil_div(steps, depth);
  const IndexExpr group = IndexExpr::var(e.output_rank()),
                  step = IndexExpr::var(e.output_rank() + 1);
  const auto inside = [&](const IndexExpr& at, const OwnTensor& t) {
    return groups * depth == steps ? nullptr : scalar_in_range(at, steps, t.range());
  };

  OwnTensor panel(e, right);
  panel.leave_out(n);
  const int own_group = panel.add_axis(groups, group);
  const int own_column = panel.add_axis(e.range(n).hi + 1, IndexExpr::var(n));
  const int own_step = panel.add_axis(depth, step);
  const IndexExpr at = IndexExpr::var(own_group) * IndexExpr(depth) + IndexExpr::var(own_step);
  const ScalarRef packed = renamed(
      right,
      [&](int v) { return v == k   ? at
                          : v == n ? IndexExpr::var(own_column)
                                   : panel.own(v); },
      panel.range());
  PackedFactors out;
  out.reduce_extents = {groups, depth};
  out.right = panel.finish(packed, inside(at, panel), name + "_packed", new_tensors, add);

  const IndexExpr along = group * IndexExpr(depth) + step;
  if (groups * depth == steps) {
    out.left = rewrite(left, [&](int v) { return v == k ? along : IndexExpr::var(v); });
    return out;
  }
  OwnTensor rows(e, left);
  const int own_along = rows.add_axis(groups * depth, along);
  const ScalarRef filled = renamed(
      left, [&](int v) { return v == k ? IndexExpr::var(own_along) : rows.own(v); }, rows.range());
  out.left = rows.finish(filled, inside(IndexExpr::var(own_along), rows), name + "_rows_filled",
                         new_tensors, add);
  return out;
}

}  // namespace weft
