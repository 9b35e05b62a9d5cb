#include "group/group_axes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace weft {

int GroupAxes::producer(TensorId t) const {
  const auto it = std::lower_bound(producers.begin(), producers.end(), std::pair(t, -1));
  return it != producers.end() && it->first == t ? it->second : -1;
}

namespace {

std::string expr_name(const TensorProgram& program, ExprId e) {
  return program.tensors[static_cast<size_t>(program.exprs[static_cast<size_t>(e)].output)].name;
}

Error refuse(const std::string& reason) { return {ErrorCode::kUnsupported, reason}; }

/// Union-find over the axes of all expressions.
class AxisClasses {
 public:
  explicit AxisClasses(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int a) {
    while (parent_[static_cast<size_t>(a)] != a)
      a = parent_[static_cast<size_t>(a)] =
          parent_[static_cast<size_t>(parent_[static_cast<size_t>(a)])];
    return a;
  }
  void unite(int a, int b) {
    a = find(a);
    b = find(b);
    if (a != b) parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

using VariablePairs = std::vector<std::pair<int, int>>;

/// Adds the variables of two affine indices that are one up to their names, `2*a + b` and
/// `2*c + d` -> (a, c), (b, d): sums in which no coefficient occurs twice.
bool pair_affine(const AffineForm& a, const AffineForm& b, VariablePairs* pairs) {
  if (a.constant != b.constant || a.terms.size() != b.terms.size()) return false;
  std::map<int64_t, int> by_coefficient;
  for (const auto& [var, c] : b.terms) {
    if (var >= kRuntimeIndexBase || !by_coefficient.emplace(c, var).second) return false;
  }
  for (const auto& [var, c] : a.terms) {
    const auto it = by_coefficient.find(c);
    if (var >= kRuntimeIndexBase || it == by_coefficient.end()) return false;
    pairs->emplace_back(var, it->second);
    by_coefficient.erase(it);
  }
  return true;
}

/// The same of any indices: `a/14` and `c/14` -> (a, c). False where they differ otherwise.
bool pair_variables(const IndexExpr& x, const IndexExpr& y, VariablePairs* pairs) {
  AffineForm a, b;
  const bool affine = as_affine(x, &a);
  if (affine != as_affine(y, &b)) return false;
  if (affine) return pair_affine(a, b, pairs);
  return x.op() == y.op() && pair_variables(x.lhs(), y.lhs(), pairs) &&
         pair_variables(x.rhs(), y.rhs(), pairs);
}

/// A reduction and a later expression that read the same tensor from outside need not read each
/// other along its axis: max_j x[i,j] and x[i,j] - m[i]; nor need what only feeds the reduction,
/// sum_j x[i,j]*x[i,j]. Where all other indices agree they walk that axis together. Parts of a
/// group that hand each other nothing walk all axes of what they read together: exp x and neg x.
void link_shared_inputs(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                        const std::vector<int>& first, AxisClasses* classes) {
  struct Read {
    int position;
    const Scalar* scalar;
  };
  std::map<int, std::vector<Read>> reads;
  for (size_t i = 0; i < group.exprs.size(); ++i) {
    visit(program.exprs[static_cast<size_t>(group.exprs[i])].body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && axes.producer(s.symbol) < 0)
        reads[s.symbol].push_back({static_cast<int>(i), &s});
    });
  }
  const auto expr = [&](int p) -> const TensorExpr& {
    return program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(p)])];
  };
  const auto meets_itself = [&](int a, int b) {
    for (size_t i = 0; i + 1 < first.size(); ++i) {
      bool has_a = false, has_b = false;
      for (int v = first[i]; v < first[i + 1]; ++v) {
        has_a |= classes->find(v) == a;
        has_b |= classes->find(v) == b;
      }
      if (has_a && has_b) return true;
    }
    return false;
  };
  std::vector<bool> is_reduced(static_cast<size_t>(first.back()), false);
  for (size_t i = 0; i + 1 < first.size(); ++i) {
    const TensorExpr& e = expr(static_cast<int>(i));
    for (int a = e.output_rank(); a < e.axis_count(); ++a)
      is_reduced[static_cast<size_t>(first[i] + a)] = true;
  }
  const auto reduces = [&](int axis_class) {
    for (int v = 0; v < first.back(); ++v) {
      if (is_reduced[static_cast<size_t>(v)] && classes->find(v) == axis_class) return true;
    }
    return false;
  };
  AxisClasses parts(group.exprs.size());
  for (size_t i = 0; i < group.exprs.size(); ++i) {
    visit(expr(static_cast<int>(i)).body, [&](const Scalar& s) {
      const int from = s.kind == Scalar::Kind::kRead ? axes.producer(s.symbol) : -1;
      if (from >= 0) parts.unite(static_cast<int>(i), from);
    });
  }
  const auto linkable = [&](const Read& p, int x, const Read& q, int y) {
    const int a = classes->find(first[static_cast<size_t>(p.position)] + x);
    const int b = classes->find(first[static_cast<size_t>(q.position)] + y);
    return a == b ||
           ((reduces(a) || reduces(b) || parts.find(p.position) != parts.find(q.position)) &&
            expr(p.position).range(x).hi == expr(q.position).range(y).hi && !meets_itself(a, b));
  };
  // All or nothing: what is linked must not depend on the order of a tensor's axes, which is that
  // of the program when a plan is made and that of memory when a kernel is built.
  const auto link = [&](const Read& p, const Read& q) {
    VariablePairs pairs;
    for (size_t d = 0; d < p.scalar->indices.size(); ++d) {
      if (!pair_variables(p.scalar->indices[d], q.scalar->indices[d], &pairs)) return;
    }
    for (const auto& [x, y] : pairs) {
      if (!linkable(p, x, q, y)) return;
    }
    for (const auto& [x, y] : pairs) {
      if (linkable(p, x, q, y))
        classes->unite(first[static_cast<size_t>(p.position)] + x,
                       first[static_cast<size_t>(q.position)] + y);
    }
  };
  for (const auto& [tensor, list] : reads) {
    for (size_t a = 0; a < list.size(); ++a) {
      for (size_t b = a + 1; b < list.size(); ++b) {
        if (list[a].position != list[b].position) link(list[a], list[b]);
      }
    }
  }
}

}  // namespace

Result<GroupAxes> derive_group_axes(const TensorProgram& program, const Group& group) {
  GroupAxes out;
  const size_t n = group.exprs.size();
  std::vector<int> first(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[i])];
    first[i + 1] = first[i] + e.axis_count();
    out.producers.emplace_back(e.output, static_cast<int>(i));
  }
  std::sort(out.producers.begin(), out.producers.end());

  AxisClasses classes(static_cast<size_t>(first[n]));
  out.level.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[i])];
    std::string trouble;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || !trouble.empty()) return;
      const int p = out.producer(s.symbol);
      if (p < 0) return;
      const TensorExpr& from =
          program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(p)])];
      out.level[i] = std::max(
          out.level[i], out.level[static_cast<size_t>(p)] + (from.reduce_extents.empty() ? 0 : 1));
      for (size_t a = 0; a < s.indices.size(); ++a) {
        const IndexExpr& index = s.indices[a];
        if (from.extents[a] == 1 && index.is_const(0)) continue;
        if (!index.is_var() || index.var_id() >= e.axis_count() ||
            e.range(index.var_id()).hi + 1 != from.extents[a]) {
          trouble = expr_name(program, group.exprs[i]) + " reads " +
                    expr_name(program, group.exprs[static_cast<size_t>(p)]) + " at [" +
                    print(index) + "] along axis " + std::to_string(a) + ", not element by element";
          return;
        }
        classes.unite(first[i] + index.var_id(),
                      first[static_cast<size_t>(p)] + static_cast<int>(a));
      }
    });
    if (!trouble.empty()) return refuse(trouble);
  }
  link_shared_inputs(program, group, out, first, &classes);
  std::vector<int> number(static_cast<size_t>(first[n]), -1);
  out.axis_of.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[i])];
    for (int a = 0; a < e.axis_count(); ++a) {
      int& id = number[static_cast<size_t>(classes.find(first[i] + a))];
      const int64_t extent = e.range(a).hi + 1;
      if (id < 0) {
        id = static_cast<int>(out.axes.size());
        out.axes.push_back({extent, false, false});
      }
      out.axes[static_cast<size_t>(id)].open |= e.is_open(a);
      if (out.axes[static_cast<size_t>(id)].extent != extent) {
        return refuse("axes of extents " + std::to_string(extent) + " and " +
                      std::to_string(out.axes[static_cast<size_t>(id)].extent) + " meet in " +
                      expr_name(program, group.exprs[i]));
      }
      for (const int other : out.axis_of[i]) {
        if (other == id)
          return refuse(expr_name(program, group.exprs[i]) + " uses one axis twice (a diagonal)");
      }
      out.axis_of[i].push_back(id);
      if (a >= e.output_rank()) out.axes[static_cast<size_t>(id)].reduced = true;
    }
    if (!e.reduce_extents.empty()) out.reductions.push_back(static_cast<int>(i));
    out.levels = std::max(out.levels, out.level[i] + 1);
  }
  return out;
}

bool has_axis(const GroupAxes& axes, int position, int axis) {
  const auto& list = axes.axis_of[static_cast<size_t>(position)];
  return std::find(list.begin(), list.end(), axis) != list.end();
}

}  // namespace weft
