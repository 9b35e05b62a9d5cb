#include "group/collapse_axes.h"

#include <algorithm>
#include <map>
#include <set>

#include "group/group_axes.h"
#include "group/group_key.h"

namespace weft {

namespace {

using Rename = std::vector<IndexExpr>;  ///< by old variable

bool is_identity(const Rename& to) {
  for (size_t v = 0; v < to.size(); ++v) {
    if (!to[v].is_var() || to[v].var_id() != static_cast<int>(v)) return false;
  }
  return true;
}

bool is_identity(const std::vector<int>& order) {
  for (size_t d = 0; d < order.size(); ++d) {
    if (order[d] != static_cast<int>(d)) return false;
  }
  return true;
}

ScalarRef rename(const ScalarRef& body, const Rename& to,
                 const std::function<ScalarRef(const ScalarRef&)>& read_of) {
  if (is_identity(to)) return rewrite(body, nullptr, read_of);
  return rewrite(
      body,
      [&](int var) {
        return var < kRuntimeIndexBase ? to[static_cast<size_t>(var)] : IndexExpr::var(var);
      },
      read_of);
}

/// Order of the logical axes in memory; the identity for row-major. Empty when the layout is no
/// permutation.
std::vector<int> physical_order(const Tensor& t) {
  std::vector<int> order;
  if (t.layout.is_row_major()) {
    for (size_t d = 0; d < t.type.shape.size(); ++d) order.push_back(static_cast<int>(d));
    return order;
  }
  for (const Layout::Axis& a : t.layout.axes) order.push_back(a.axis);
  return order;
}

}  // namespace

GroupView cut_group(const TensorProgram& program, const Group& group,
                    const std::map<TensorId, Layout>& orders, const GroupKey* key) {
  GroupView view;
  std::map<TensorId, TensorId> local;
  std::vector<std::vector<int>> order;
  const auto tensor = [&](TensorId t) {
    if (const auto it = local.find(t); it != local.end()) return it->second;
    const auto id = static_cast<TensorId>(view.program.tensors.size());
    Tensor copy = program.tensors[static_cast<size_t>(t)];
    if (const auto it = orders.find(t); it != orders.end()) copy.layout = it->second;
    order.push_back(physical_order(copy));
    Shape shape;
    for (const int d : order.back()) shape.push_back(copy.type.shape[static_cast<size_t>(d)]);
    copy.type.shape = std::move(shape);
    copy.layout = {};
    if (key != nullptr) {
      const auto number = std::ranges::find(key->tensors, t) - key->tensors.begin();
      copy.name = numbered_name(static_cast<size_t>(number));
    }
    view.program.tensors.push_back(std::move(copy));
    view.original.push_back(t);
    local[t] = id;
    return id;
  };
  const auto permute = [&](TensorId id, std::vector<IndexExpr>& indices) {
    const std::vector<int>& by = order[static_cast<size_t>(id)];
    if (is_identity(by) && by.size() == indices.size()) return;
    std::vector<IndexExpr> out;
    for (const int d : by) out.push_back(indices[static_cast<size_t>(d)]);
    indices = std::move(out);
  };
  for (const ExprId e : group.exprs) {
    TensorExpr expr = program.exprs[static_cast<size_t>(e)];
    expr.output = tensor(expr.output);
    // Output axes in the order of memory.
    Rename to;
    const std::vector<int>& axes = order[static_cast<size_t>(expr.output)];
    for (int v = 0; v < expr.axis_count(); ++v) {
      const auto at = std::find(axes.begin(), axes.end(), v);
      to.push_back(
          IndexExpr::var(v < expr.output_rank() ? static_cast<int>(at - axes.begin()) : v));
    }
    expr.extents = view.program.tensors[static_cast<size_t>(expr.output)].type.shape;
    if (!expr.open.empty()) {
      const std::vector<bool> open = expr.open;
      for (size_t v = 0; v < axes.size(); ++v) expr.open[v] = open[static_cast<size_t>(axes[v])];
    }
    expr.body = rename(expr.body, to, [&](const ScalarRef& read) {
      auto copy = std::make_shared<Scalar>(*read);
      copy->symbol = tensor(read->symbol);
      permute(copy->symbol, copy->indices);
      return ScalarRef(copy);
    });
    view.group.exprs.push_back(static_cast<ExprId>(view.program.exprs.size()));
    view.program.steps.push_back({false, static_cast<int32_t>(view.program.exprs.size())});
    view.program.exprs.push_back(std::move(expr));
  }
  for (const TensorId t : group.outputs) view.group.outputs.push_back(local.at(t));
  return view;
}

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
  AxisMerge(TensorProgram& program, const GroupAxes& axes, int a, int b)
      : program_(program),
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
      const auto it = merged_dim_.find(program_.exprs[i].output);
      if (it != merged_dim_.end() && own_axis(axes_, i, a_) != static_cast<int>(it->second))
        return false;
    }
    for (size_t i = 0; i < program_.exprs.size(); ++i) merge_in(i);
    for (const auto& [t, d] : merged_dim_) {
      Shape& shape = program_.tensors[static_cast<size_t>(t)].type.shape;
      shape[d] *= shape[d + 1];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    }
    return true;
  }

 private:
  /// Dimensions `dim` and the next of a tensor become one; false where others of it do.
  bool claim(TensorId t, size_t dim) {
    const auto [it, added] = merged_dim_.emplace(t, dim);
    return added || it->second == dim;
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
      if (pb != pa + 1 || !claim(e.output, static_cast<size_t>(pa))) return false;
    } else if (e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin) {
      return false;
    }
    bool fine = true;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kIndex) fine &= !uses_var(s.index, pa) && !uses_var(s.index, pb);
      if (s.kind == Scalar::Kind::kRead) fine &= claim_read(s, pa, pb);
    });
    return fine;
  }

  bool claim_read(const Scalar& s, int pa, int pb) {
    int at_a = -1, at_b = -1;
    for (size_t d = 0; d < s.indices.size(); ++d) {
      const IndexExpr& index = s.indices[d];
      if (index.is_var() && index.var_id() == pa && at_a < 0) {
        at_a = static_cast<int>(d);
      } else if (index.is_var() && index.var_id() == pb && at_b < 0) {
        at_b = static_cast<int>(d);
      } else if (uses_var(index, pa) || uses_var(index, pb)) {
        return false;
      }
    }
    if (at_a < 0 && at_b < 0) return true;
    const Shape& shape = program_.tensors[static_cast<size_t>(s.symbol)].type.shape;
    return at_a >= 0 && at_b == at_a + 1 && shape[static_cast<size_t>(at_b)] == inner_ &&
           claim(s.symbol, static_cast<size_t>(at_a));
  }

  ScalarRef merge_indices(const ScalarRef& read) const {
    const auto it = merged_dim_.find(read->symbol);
    if (it == merged_dim_.end()) return read;
    auto copy = std::make_shared<Scalar>(*read);
    const size_t d = it->second;
    const int64_t extent = program_.tensors[static_cast<size_t>(read->symbol)].type.shape[d + 1];
    copy->indices[d] = copy->indices[d] * extent + copy->indices[d + 1];
    copy->indices.erase(copy->indices.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    return copy;
  }

  void merge_in(size_t i) {
    TensorExpr& e = program_.exprs[i];
    const int pa = own_axis(axes_, i, a_), pb = own_axis(axes_, i, b_);
    Rename to;
    // The pair (pa, pb) becomes (0, merged): index pa*extent + pb is then the merged variable.
    for (int v = 0; v < e.axis_count(); ++v) {
      if (pa < 0) {
        to.push_back(IndexExpr::var(v));
      } else if (v == pa) {
        to.emplace_back(0);
      } else {
        const int target = v == pb ? pa : v;
        to.push_back(IndexExpr::var(target > pb ? target - 1 : target));
      }
    }
    // With pb < pa (reductions listed the other way round) removing pb shifts pa.
    if (pa >= 0 && pb < pa) to[static_cast<size_t>(pb)] = IndexExpr::var(pa - 1);
    e.body = rename(e.body, to, [&](const ScalarRef& r) { return merge_indices(r); });
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
  const GroupAxes& axes_;
  int a_, b_;
  int64_t inner_;
  std::map<TensorId, size_t> merged_dim_;  ///< the first of two dims that become one
};

}  // namespace

GroupView collapse_axes(const TensorProgram& program, const Group& group,
                        const std::map<TensorId, Layout>& orders, const GroupKey* key,
                        Result<GroupAxes>* out) {
  GroupView view = cut_group(program, group, orders, key);
  for (bool changed = true; changed;) {
    changed = false;
    auto axes = derive_group_axes(view.program, view.group);
    if (!axes.ok()) {
      if (out != nullptr) *out = axes.take_error();
      return view;
    }
    // Candidates: axes that stand side by side in some output or read.
    std::set<std::pair<int, int>> pairs;
    for (size_t i = 0; i < view.program.exprs.size(); ++i) {
      const TensorExpr& e = view.program.exprs[i];
      const auto& own = axes->axis_of[i];
      for (int v = 0; v + 1 < e.output_rank(); ++v)
        pairs.emplace(own[static_cast<size_t>(v)], own[static_cast<size_t>(v) + 1]);
      for (int v = e.output_rank(); v + 1 < e.axis_count(); ++v) {
        pairs.emplace(own[static_cast<size_t>(v)], own[static_cast<size_t>(v) + 1]);
      }
    }
    for (const auto& [a, b] : pairs) {
      if (AxisMerge(view.program, *axes, a, b).run()) {
        changed = true;
        break;
      }
    }
    if (!changed && out != nullptr) *out = std::move(axes);
  }
  return view;
}

}  // namespace weft
