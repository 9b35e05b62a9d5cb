#include "group/group_axes.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace weft {

int GroupAxes::producer(TensorId t) const {
  const auto it = std::lower_bound(producers.begin(), producers.end(), std::pair(t, -1));
  return it != producers.end() && it->first == t ? it->second : -1;
}

namespace {

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

/// A read of an expression of the group.
struct Read {
  int position;
  const Leaf* leaf;
  int from;  ///< the position of what makes it, -1 of what comes from outside
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
  if (x.is_var() && y.is_var()) {
    if (std::max(x.var_id(), y.var_id()) >= kRuntimeIndexBase) return false;
    pairs->emplace_back(x.var_id(), y.var_id());
    return true;
  }
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
class SharedInputs {
 public:
  /// `first` has the first of each expression's axes among those of all, and how many there are.
  SharedInputs(const TensorProgram& program, const Group& group, const std::vector<Read>& reads,
               const std::vector<int>& first, AxisClasses* classes)
      : program_(program),
        group_(group),
        reads_(reads),
        first_(first),
        classes_(*classes),
        parts_(group.exprs.size()) {}

  void link() {
    std::vector<const Read*> outside;
    for (const Read& r : reads_) {
      if (r.from < 0) outside.push_back(&r);
    }
    std::ranges::sort(outside, {}, [](const Read* r) { return std::pair(r->leaf->symbol, r); });
    for (size_t a = 0; a < outside.size(); ++a) {
      for (size_t b = a + 1; b < outside.size(); ++b) {
        if (outside[b]->leaf->symbol != outside[a]->leaf->symbol) break;
        if (outside[a]->position != outside[b]->position) link(*outside[a], *outside[b]);
      }
    }
  }

 private:
  const TensorExpr& expr(int p) const {
    return program_.exprs[static_cast<size_t>(group_.exprs[static_cast<size_t>(p)])];
  }
  int class_of(const Read& read, int axis) {
    return classes_.find(first_[static_cast<size_t>(read.position)] + axis);
  }

  /// What only links ask: which classes are reduced, and which parts of the group hand each other
  /// something.
  void look_at_group() {
    reduced_.assign(static_cast<size_t>(first_.back()), false);
    for (size_t i = 0; i + 1 < first_.size(); ++i) {
      const TensorExpr& e = expr(static_cast<int>(i));
      for (int a = e.output_rank(); a < e.axis_count(); ++a)
        reduced_[static_cast<size_t>(classes_.find(first_[i] + a))] = true;
    }
    for (const Read& r : reads_) {
      if (r.from >= 0) parts_.unite(r.position, r.from);
    }
  }

  bool meets_itself(int a, int b) {
    for (size_t i = 0; i + 1 < first_.size(); ++i) {
      bool has_a = false, has_b = false;
      for (int v = first_[i]; v < first_[i + 1]; ++v) {
        has_a |= classes_.find(v) == a;
        has_b |= classes_.find(v) == b;
      }
      if (has_a && has_b) return true;
    }
    return false;
  }

  bool linkable(const Read& p, int x, const Read& q, int y) {
    const int a = class_of(p, x), b = class_of(q, y);
    return a == b ||
           ((reduced_[static_cast<size_t>(a)] || reduced_[static_cast<size_t>(b)] ||
             parts_.find(p.position) != parts_.find(q.position)) &&
            expr(p.position).range(x).hi == expr(q.position).range(y).hi && !meets_itself(a, b));
  }

  void unite(int a, int b) {
    const bool reduced = reduced_[static_cast<size_t>(a)] || reduced_[static_cast<size_t>(b)];
    classes_.unite(a, b);
    reduced_[static_cast<size_t>(classes_.find(a))] = reduced;
  }

  /// All or nothing: what is linked must not depend on the order of a tensor's axes, which is that
  /// of the program when a plan is made and that of memory when a kernel is built.
  void link(const Read& p, const Read& q) {
    if (reduced_.empty()) look_at_group();
    pairs_.clear();
    for (size_t d = 0; d < p.leaf->indices.size(); ++d) {
      if (!pair_variables(p.leaf->indices[d], q.leaf->indices[d], &pairs_)) return;
    }
    for (const auto& [x, y] : pairs_) {
      if (!linkable(p, x, q, y)) return;
    }
    for (const auto& [x, y] : pairs_) {
      if (linkable(p, x, q, y)) unite(class_of(p, x), class_of(q, y));
    }
  }

  const TensorProgram& program_;
  const Group& group_;
  const std::vector<Read>& reads_;
  const std::vector<int>& first_;
  AxisClasses& classes_;
  std::vector<bool> reduced_;  ///< by class
  AxisClasses parts_;          ///< of positions
  VariablePairs pairs_;
};

/// Follows reads of what the group makes.
class AxisDerivation {
 public:
  AxisDerivation(const TensorProgram& program, const Group& group,
                 std::span<const std::vector<Leaf>> leaves)
      : program_(program), group_(group), first_(first_axes()), classes_(count_of_axes()) {
    const size_t n = group.exprs.size();
    out_.producers.reserve(n);
    for (size_t i = 0; i < n; ++i) out_.producers.emplace_back(expr(i).output, static_cast<int>(i));
    std::sort(out_.producers.begin(), out_.producers.end());
    for (size_t i = 0; i < n; ++i) {
      for (const Leaf& leaf : leaves[i]) {
        if (leaf.is_read())
          reads_.push_back({static_cast<int>(i), &leaf, out_.producer(leaf.symbol)});
      }
    }
  }

  Result<GroupAxes> run() {
    out_.level.assign(group_.exprs.size(), 0);
    for (const Read& read : reads_) {
      if (read.from >= 0) WEFT_RETURN_IF_ERROR(follow(read));
    }
    SharedInputs(program_, group_, reads_, first_, &classes_).link();
    std::vector<int> number(count_of_axes(), -1);
    out_.axis_of.resize(group_.exprs.size());
    for (size_t i = 0; i < group_.exprs.size(); ++i) {
      WEFT_RETURN_IF_ERROR(number_axes(i, &number));
      if (!expr(i).reduce_extents.empty()) out_.reductions.push_back(static_cast<int>(i));
      out_.levels = std::max(out_.levels, out_.level[i] + 1);
    }
    return std::move(out_);
  }

 private:
  const TensorExpr& expr(size_t position) const {
    return program_.exprs[static_cast<size_t>(group_.exprs[position])];
  }
  std::string name(size_t position) const {
    return program_.tensors[static_cast<size_t>(expr(position).output)].name;
  }
  std::vector<int> first_axes() const {
    std::vector<int> first(group_.exprs.size() + 1, 0);
    for (size_t i = 0; i < group_.exprs.size(); ++i) first[i + 1] = first[i] + expr(i).axis_count();
    return first;
  }
  size_t count_of_axes() const { return static_cast<size_t>(first_.back()); }

  Status follow(const Read& read) {
    const auto i = static_cast<size_t>(read.position), p = static_cast<size_t>(read.from);
    const TensorExpr &e = expr(i), &from = expr(p);
    out_.level[i] = std::max(out_.level[i], out_.level[p] + (from.reduce_extents.empty() ? 0 : 1));
    for (size_t a = 0; a < read.leaf->indices.size(); ++a) {
      const IndexExpr& index = read.leaf->indices[a];
      if (from.extents[a] == 1 && index.is_const(0)) continue;
      if (!index.is_var() || index.var_id() >= e.axis_count() ||
          e.range(index.var_id()).hi + 1 != from.extents[a]) {
        return unsupported(name(i) + " reads " + name(p) + " at [" + print(index) +
                           "] along axis " + std::to_string(a) + ", not element by element");
      }
      classes_.unite(first_[i] + index.var_id(), first_[p] + static_cast<int>(a));
    }
    return {};
  }

  /// Gives the classes of an expression's axes numbers, and those axes the numbers.
  Status number_axes(size_t position, std::vector<int>* number) {
    const TensorExpr& e = expr(position);
    std::vector<int>& own = out_.axis_of[position];
    own.reserve(static_cast<size_t>(e.axis_count()));
    for (int a = 0; a < e.axis_count(); ++a) {
      int& id = (*number)[static_cast<size_t>(classes_.find(first_[position] + a))];
      const int64_t extent = e.range(a).hi + 1;
      if (id < 0) {
        id = static_cast<int>(out_.axes.size());
        out_.axes.push_back({extent, false, false});
      }
      GroupAxes::Axis& axis = out_.axes[static_cast<size_t>(id)];
      axis.open |= e.is_open(a);
      if (axis.extent != extent) {
        return unsupported("axes of extents " + std::to_string(extent) + " and " +
                           std::to_string(axis.extent) + " meet in " + name(position));
      }
      if (std::ranges::find(own, id) != own.end())
        return unsupported(name(position) + " uses one axis twice (a diagonal)");
      own.push_back(id);
      axis.reduced |= a >= e.output_rank();
    }
    return {};
  }

  const TensorProgram& program_;
  const Group& group_;
  std::vector<int> first_;  ///< of each expression's axes among those of all
  AxisClasses classes_;
  std::vector<Read> reads_;
  GroupAxes out_;
};

}  // namespace

Result<GroupAxes> derive_group_axes(const TensorProgram& program, const Group& group,
                                    std::span<const std::vector<Leaf>> leaves) {
  return AxisDerivation(program, group, leaves).run();
}

Result<GroupAxes> derive_group_axes(const TensorProgram& program, const Group& group) {
  std::vector<std::vector<Leaf>> leaves;
  for (const ExprId e : group.exprs)
    leaves.push_back(leaves_of(program.exprs[static_cast<size_t>(e)].body));
  return derive_group_axes(program, group, leaves);
}

bool has_axis(const GroupAxes& axes, int position, int axis) {
  const auto& list = axes.axis_of[static_cast<size_t>(position)];
  return std::find(list.begin(), list.end(), axis) != list.end();
}

}  // namespace weft
