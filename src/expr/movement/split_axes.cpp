#include "expr/movement/split_axes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "expr/leaves.h"
#include "expr/movement/read_composer.h"
#include "expr/movement/remove_dead_expressions.h"

namespace weft {
namespace {

/// How an axis is taken apart: positions between digits, ascending, each dividing the next and all
/// of them the extent. {64} of 768: digits of 12 and of 64.
using Cuts = std::vector<int64_t>;

struct Digit {
  int64_t divisor = 1;
  int64_t extent = 1;
};
/// Most significant first.
std::vector<Digit> digits_of(const Cuts& cuts, int64_t extent) {
  std::vector<Digit> digits;
  int64_t above = extent;
  for (size_t i = cuts.size(); i-- > 0;) {
    digits.push_back({cuts[i], above / cuts[i]});
    above = cuts[i];
  }
  digits.push_back({1, above});
  return digits;
}

bool is_chain(const Cuts& cuts, int64_t extent) {
  int64_t below = 1;
  for (const int64_t c : cuts) {
    if (c % below != 0 || c == below) return false;
    below = c;
  }
  return extent % below == 0 && below < extent;
}

/// The cuts that `index` asks of variables: v floordiv c, v mod c, (v floordiv c) mod m.
void collect_cuts(const IndexExpr& index, const std::function<void(int var, int64_t cut)>& found) {
  if (index.is_const() || index.is_var()) return;
  if (index.op() == IndexOp::kFloorDiv || index.op() == IndexOp::kMod) {
    const int64_t by = index.rhs().constant();
    const IndexExpr& inner = index.lhs();
    if (inner.is_var()) {
      found(inner.var_id(), by);
    } else if (inner.op() == IndexOp::kFloorDiv && inner.lhs().is_var()) {
      found(inner.lhs().var_id(), inner.rhs().constant());
      int64_t both = 0;
      if (!__builtin_mul_overflow(inner.rhs().constant(), by, &both)) {
        found(inner.lhs().var_id(), both);
      }
    } else {
      collect_cuts(inner, found);
    }
    return;
  }
  collect_cuts(index.lhs(), found);
  collect_cuts(index.rhs(), found);
}

/// The variables of v1 * c + v2 … that count through the extent, most significant first; empty if
/// the index is not of that form.
std::vector<std::pair<int, int64_t>> mixed_radix(const IndexExpr& index, int64_t extent,
                                                 const RangeOf& range) {
  AffineForm form;
  if (!as_affine(index, &form) || form.terms.size() < 2 || form.constant != 0) return {};
  std::sort(form.terms.begin(), form.terms.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  int64_t weight = extent;
  for (const auto& [var, c] : form.terms) {
    if (var >= kRuntimeIndexBase || c <= 0 || c * (range(var).hi + 1) != weight) return {};
    weight = c;
  }
  if (weight != 1) return {};
  return form.terms;
}

bool has_digits(const TensorExpr& e) {
  bool found = false;
  AffineForm form;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kIndex) found = found || !as_affine(s.index, &form);
    for (const IndexExpr& i : s.indices) found = found || !as_affine(i, &form);
  });
  return found;
}

class AxisSplitting {
 public:
  AxisSplitting(TensorProgram& program, const std::set<TensorId>& inlined)
      : program_(program), inlined_(inlined) {}

  bool run() {
    number_axes();
    link_axes();
    collect_all_cuts();
    for (auto& [axis, cuts] : cuts_) {
      if (!is_chain(cuts, extent_[static_cast<size_t>(axis)])) vetoed_.insert(axis);
    }
    while (veto_what_readers_cannot_follow()) {
    }
    if (std::none_of(cuts_.begin(), cuts_.end(),
                     [&](const auto& c) { return vetoed_.count(c.first) == 0; })) {
      return false;
    }
    apply();
    return true;
  }

 private:
  Tensor& tensor(TensorId t) { return program_.tensors[static_cast<size_t>(t)]; }

  bool is_inlined(size_t expr) const { return inlined_.contains(program_.exprs[expr].output); }

  /// All axes of all expressions in one numbering; classes by union.
  void number_axes() {
    producer_.assign(program_.tensors.size(), -1);
    for (size_t x = 0; x < program_.exprs.size(); ++x) {
      const TensorExpr& e = program_.exprs[x];
      producer_[static_cast<size_t>(e.output)] = static_cast<int>(x);
      first_.push_back(static_cast<int>(extent_.size()));
      for (int v = 0; v < e.axis_count(); ++v) extent_.push_back(e.range(v).hi + 1);
    }
    parent_.resize(extent_.size());
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int find(int a) {
    while (parent_[static_cast<size_t>(a)] != a) {
      a = parent_[static_cast<size_t>(a)] =
          parent_[static_cast<size_t>(parent_[static_cast<size_t>(a)])];
    }
    return a;
  }
  int axis(size_t expr, int var) { return find(first_[expr] + var); }
  /// The class of a tensor's axis; -1 where no expression makes the tensor.
  int tensor_axis(TensorId t, size_t a) {
    const int producer = producer_[static_cast<size_t>(t)];
    return producer < 0 ? -1 : axis(static_cast<size_t>(producer), static_cast<int>(a));
  }
  /// Whether the read takes the axis element by element: index = one variable over all of it.
  bool links(const TensorExpr& e, const Scalar& read, size_t a) {
    const IndexExpr& index = read.indices[a];
    return index.is_var() && index.var_id() < kRuntimeIndexBase &&
           e.range(index.var_id()).hi + 1 == tensor(read.symbol).type.shape[a];
  }

  template <typename Call>
  void for_each_read(const Call& call) {
    for (size_t x = 0; x < program_.exprs.size(); ++x) {
      visit(program_.exprs[x].body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) call(x, s);
      });
    }
  }

  void link_axes() {
    for_each_read([&](size_t x, const Scalar& read) {
      for (size_t a = 0; a < read.indices.size(); ++a) {
        const int from = tensor_axis(read.symbol, a);
        if (from < 0 || !links(program_.exprs[x], read, a)) continue;
        const int to = axis(x, read.indices[a].var_id());
        parent_[static_cast<size_t>(std::max(from, to))] = std::min(from, to);
      }
    });
  }

  /// False where the axis has that cut.
  bool add_cut(int axis_class, int64_t cut) {
    if (cut <= 1 || cut >= extent_[static_cast<size_t>(axis_class)]) return false;
    Cuts& cuts = cuts_[axis_class];
    const auto at = std::lower_bound(cuts.begin(), cuts.end(), cut);
    if (at != cuts.end() && *at == cut) return false;
    cuts.insert(at, cut);
    return true;
  }

  /// A tensor that readers take as v1 * c + v2 is better made in those two axes, so that producer
  /// and reader run over the same ones. Not for contractions, whose axes are worth more whole.
  void follow_readers() {
    std::set<int> contracted;
    for (size_t x = 0; x < program_.exprs.size(); ++x) {
      for (int v = 0; program_.exprs[x].is_contraction && v < program_.exprs[x].axis_count(); ++v) {
        contracted.insert(axis(x, v));
      }
    }
    for_each_read([&](size_t x, const Scalar& read) {
      for (size_t a = 0; a < read.indices.size() && !is_inlined(x); ++a) {
        const int c = tensor_axis(read.symbol, a);
        if (c < 0 || contracted.count(c) != 0) continue;
        const int64_t extent = tensor(read.symbol).type.shape[a];
        const RangeOf range = [&](int id) { return program_.exprs[x].range(id); };
        for (const auto& [var, weight] : mixed_radix(read.indices[a], extent, range)) {
          add_cut(c, weight);
        }
      }
    });
  }

  /// A reader that takes a tensor's axis as v1 * c + v2 reads its digits where the cuts of the axis
  /// are cuts of v1 and v2, too:
  ///     x[d0 * 49 + d1], x cut at 392, 49 and 7   ->   d0 is cut at 8, d1 at 7
  bool follow_producers() {
    std::vector<std::pair<int, int64_t>> wanted;
    for_each_read([&](size_t x, const Scalar& read) {
      for (size_t a = 0; a < read.indices.size(); ++a) {
        const int c = tensor_axis(read.symbol, a);
        const auto cuts = c < 0 ? cuts_.end() : cuts_.find(c);
        const int64_t extent = tensor(read.symbol).type.shape[a];
        if (cuts == cuts_.end() || !is_chain(cuts->second, extent)) continue;
        const RangeOf range = [&](int id) { return program_.exprs[x].range(id); };
        for (const auto& [var, weight] : mixed_radix(read.indices[a], extent, range)) {
          const int64_t above = weight * (range(var).hi + 1);
          for (const int64_t cut : cuts->second) {
            if (cut > weight && cut < above && cut % weight == 0)
              wanted.emplace_back(axis(x, var), cut / weight);
          }
        }
      }
    });
    bool any = false;
    for (const auto& [axis_class, cut] : wanted) any = add_cut(axis_class, cut) || any;
    return any;
  }

  void collect_all_cuts() {
    for (size_t x = 0; x < program_.exprs.size(); ++x) {
      if (is_inlined(x)) continue;
      const auto add = [&](int var, int64_t cut) {
        if (var < kRuntimeIndexBase) add_cut(axis(x, var), cut);
      };
      visit(program_.exprs[x].body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kIndex) collect_cuts(s.index, add);
        if (s.kind == Scalar::Kind::kRead && inlined_.contains(s.symbol)) return;
        for (const IndexExpr& index : s.indices) collect_cuts(index, add);
      });
    }
    follow_readers();
    while (follow_producers()) {
    }
    for (const OpaqueExpr& o : program_.opaques) {
      for (const TensorId t : o.operands) veto_tensor(t);
    }
    // Convolutions keep their form: the layouts and kernels for them know it.
    for (size_t x = 0; x < program_.exprs.size(); ++x) {
      const TensorExpr& e = program_.exprs[x];
      if (is_convolution(e)) veto_axes_of(x);
      // The position along the one reduction axis is the result.
      if (!e.reduce_extents.empty() && combiner_is_arg(e.combiner)) {
        vetoed_.insert(axis(x, e.output_rank()));
      }
    }
  }
  void veto_tensor(TensorId t) {
    for (size_t a = 0; a < tensor(t).type.shape.size(); ++a) {
      const int c = tensor_axis(t, a);
      if (c >= 0) vetoed_.insert(c);
    }
  }

  /// A contraction that moves a window over axes of its own place, or takes channels by groups:
  /// x[d0, …, d2 * 2 + r0, …].
  static bool is_convolution(const TensorExpr& e) {
    bool found = false;
    visit(e.body, [&](const Scalar& s) {
      const bool same_rank = static_cast<int>(s.indices.size()) == e.output_rank();
      if (s.kind != Scalar::Kind::kRead || !same_rank || s.indices.size() < 3) return;
      for (size_t a = 1; a < s.indices.size(); ++a) {
        bool reduced = false;
        for (const int id : variables(s.indices[a])) {
          reduced = reduced || (id >= e.output_rank() && id < kRuntimeIndexBase);
        }
        found = found || (reduced && uses_var(s.indices[a], static_cast<int>(a)));
      }
    });
    return found && e.is_contraction;
  }
  void veto_axes_of(size_t x) {
    for (int v = 0; v < program_.exprs[x].axis_count(); ++v) vetoed_.insert(axis(x, v));
  }

  const Cuts* cuts_of(int axis_class) const {
    const auto found = cuts_.find(axis_class);
    return found == cuts_.end() || vetoed_.count(axis_class) != 0 ? nullptr : &found->second;
  }

  /// The variables of an expression after the split: for each old one its value in new ones.
  struct NewAxes {
    std::vector<IndexExpr> value;
    std::vector<int64_t> output_extents, reduce_extents;
    bool changed = false;

    Interval range(int var) const {
      const auto v = static_cast<size_t>(var);
      if (v < output_extents.size()) return {0, output_extents[v] - 1};
      if (v - output_extents.size() < reduce_extents.size()) {
        return {0, reduce_extents[v - output_extents.size()] - 1};
      }
      return kUnbounded;
    }
  };
  NewAxes new_axes(size_t x) {
    const TensorExpr& e = program_.exprs[x];
    NewAxes n;
    int next = 0;
    for (int v = 0; v < e.axis_count(); ++v) {
      const int64_t extent = e.range(v).hi + 1;
      const Cuts* cuts = cuts_of(axis(x, v));
      IndexExpr value(0);
      for (const Digit& d : digits_of(cuts != nullptr ? *cuts : Cuts{}, extent)) {
        value = value + IndexExpr::var(next++) * IndexExpr(d.divisor);
        (v < e.output_rank() ? n.output_extents : n.reduce_extents).push_back(d.extent);
      }
      n.changed = n.changed || cuts != nullptr;
      n.value.push_back(std::move(value));
    }
    return n;
  }

  static IndexExpr renewed(const IndexExpr& index, const NewAxes& n) {
    const IndexExpr value = substitute(index, [&](int id) {
      return id < kRuntimeIndexBase ? n.value[static_cast<size_t>(id)] : IndexExpr::var(id);
    });
    return simplify(value, [&](int id) { return n.range(id); });
  }
  /// `index` along an axis that is taken apart: one index for each digit.
  static std::vector<IndexExpr> digits_at(const IndexExpr& index, const Cuts& cuts, int64_t extent,
                                          const NewAxes& n) {
    std::vector<IndexExpr> out;
    const RangeOf range = [&](int id) { return n.range(id); };
    const std::vector<Digit> digits = digits_of(cuts, extent);
    for (size_t d = 0; d < digits.size(); ++d) {
      IndexExpr digit = floor_div(index, digits[d].divisor);
      if (d > 0) digit = mod(digit, digits[d].extent);
      out.push_back(simplify(digit, range));
    }
    return out;
  }

  bool veto_what_readers_cannot_follow() {
    const size_t before = vetoed_.size();
    for (size_t x = 0; x < program_.exprs.size(); ++x) {
      std::optional<NewAxes> axes;
      visit(program_.exprs[x].body, [&](const Scalar& read) {
        if (read.kind != Scalar::Kind::kRead) return;
        for (size_t a = 0; a < read.indices.size(); ++a) {
          const int c = tensor_axis(read.symbol, a);
          const Cuts* cuts = c < 0 ? nullptr : cuts_of(c);
          if (cuts == nullptr || links(program_.exprs[x], read, a)) continue;
          if (!axes) axes = new_axes(x);
          if (!can_follow(read, a, *cuts, *axes)) vetoed_.insert(c);
        }
      });
    }
    return vetoed_.size() != before;
  }
  /// Whether the digits are affine, or at least no longer than an index that has digits as it is:
  /// (d1 mod 4) * 256 + d2 becomes d1 mod 4 and d2.
  bool can_follow(const Scalar& read, size_t a, const Cuts& cuts, const NewAxes& axes) {
    AffineForm form;
    const IndexExpr index = renewed(read.indices[a], axes);
    if (index.is_var() && index.var_id() >= kRuntimeIndexBase) return false;
    bool affine = true;
    int64_t size = 0;
    for (const IndexExpr& i : digits_at(index, cuts, tensor(read.symbol).type.shape[a], axes)) {
      affine = affine && as_affine(i, &form);
      size += i.tree_size();
    }
    return affine || (!as_affine(index, &form) && size <= index.tree_size());
  }

  void apply() {
    std::vector<NewAxes> axes;
    for (size_t x = 0; x < program_.exprs.size(); ++x) axes.push_back(new_axes(x));
    old_shape_.reserve(program_.tensors.size());
    for (const Tensor& t : program_.tensors) old_shape_.push_back(t.type.shape);
    // Cuts by tensor axis, while shapes still are what the axes were numbered by.
    tensor_cuts_.resize(program_.tensors.size());
    for (size_t t = 0; t < program_.tensors.size(); ++t) {
      for (size_t a = 0; a < old_shape_[t].size(); ++a) {
        const int c = tensor_axis(static_cast<TensorId>(t), a);
        tensor_cuts_[t].push_back(c < 0 ? nullptr : cuts_of(c));
      }
    }
    for (size_t x = 0; x < program_.exprs.size(); ++x) rewrite_reads(program_.exprs[x], axes[x]);
    for (size_t x = 0; x < program_.exprs.size(); ++x) {
      TensorExpr& e = program_.exprs[x];
      Tensor& out = tensor(e.output);
      if (axes[x].output_extents != out.type.shape && out.declared.empty()) {
        out.declared = out.type.shape;
      }
      out.type.shape = e.extents = axes[x].output_extents;
      e.reduce_extents = axes[x].reduce_extents;
    }
    for (TensorExpr& e : program_.exprs) view_constants(e);
  }

  void rewrite_reads(TensorExpr& e, const NewAxes& n) {
    const auto read_of = [&](const ScalarRef& read) -> ScalarRef {
      const auto t = static_cast<size_t>(read->symbol);
      std::vector<IndexExpr> indices;
      for (size_t a = 0; a < read->indices.size(); ++a) {
        const IndexExpr index = simplify(read->indices[a], [&](int id) { return n.range(id); });
        const Cuts* cuts = tensor_cuts_[t][a];
        if (cuts == nullptr) {
          indices.push_back(index);
          continue;
        }
        for (IndexExpr& i : digits_at(index, *cuts, old_shape_[t][a], n)) {
          indices.push_back(std::move(i));
        }
      }
      if (indices == read->indices) return read;
      return scalar_read(read->symbol, read->type, std::move(indices), read->operands, read->fill);
    };
    const auto index_of = [&](int id) { return n.value[static_cast<size_t>(id)]; };
    e.body = rewrite(e.body, n.changed ? index_of : std::function<IndexExpr(int)>{}, read_of);
    if (n.changed) simplify_index_values(e, n);
  }

  /// Indices that stand in the body as values, as those of padding and rolled axes that are
  /// compared with a border.
  static void simplify_index_values(TensorExpr& e, const NewAxes& n) {
    std::vector<Leaf> leaves = leaves_of(e.body);
    for (Leaf& leaf : leaves) {
      if (leaf.is_read()) continue;
      leaf.indices[0] = simplify(leaf.indices[0], [&](int id) { return n.range(id); });
    }
    e.body = with_leaves(e.body, std::move(leaves));
  }

  /// A constant that a contraction reads at v1 * c + v2, v2 below c, is the constant with that axis
  /// as two, read at v1 and v2.
  void view_constants(TensorExpr& e) {
    if (!e.is_contraction) return;
    const RangeOf range = [&](int id) { return e.range(id); };
    const auto read_of = [&](const ScalarRef& read) -> ScalarRef {
      if (tensor(read->symbol).kind != Tensor::Kind::kConstant || !read->operands.empty()) {
        return read;
      }
      Shape shape;
      std::vector<IndexExpr> indices;
      for (size_t a = 0; a < read->indices.size(); ++a) {
        split_constant_axis(read->indices[a], tensor(read->symbol).type.shape[a], range, &shape,
                            &indices);
      }
      if (indices.size() == read->indices.size()) return read;
      return scalar_read(viewed(read->symbol, shape), read->type, std::move(indices), {},
                         read->fill);
    };
    e.body = rewrite(e.body, {}, read_of);
  }
  static void split_constant_axis(const IndexExpr& index, int64_t extent, const RangeOf& range,
                                  Shape* shape, std::vector<IndexExpr>* indices) {
    const auto digits = mixed_radix(index, extent, range);
    for (const auto& [var, weight] : digits) {
      shape->push_back(range(var).hi + 1);
      indices->push_back(IndexExpr::var(var));
    }
    if (!digits.empty()) return;
    shape->push_back(extent);
    indices->push_back(index);
  }
  TensorId viewed(TensorId of, const Shape& shape) {
    const auto [known, fresh] = views_.try_emplace({of, shape}, -1);
    if (!fresh) return known->second;
    if (names_.empty()) {
      for (const Tensor& t : program_.tensors) names_.insert(t.name);
    }
    Tensor view;
    view.name = tensor(of).name + "_view";
    for (int i = 1; !names_.insert(view.name).second; ++i) {
      view.name = tensor(of).name + "_view" + std::to_string(i);
    }
    view.kind = Tensor::Kind::kConstant;
    view.type = {tensor(of).type.dtype, shape};
    view.value = tensor(of).value.reshaped(shape);
    known->second = static_cast<TensorId>(program_.tensors.size());
    program_.tensors.push_back(std::move(view));
    return known->second;
  }

  TensorProgram& program_;
  const std::set<TensorId>& inlined_;
  std::vector<int> producer_, first_, parent_;
  std::vector<int64_t> extent_;
  std::map<int, Cuts> cuts_;
  std::set<int> vetoed_;
  std::vector<Shape> old_shape_;
  std::vector<std::vector<const Cuts*>> tensor_cuts_;
  std::map<std::pair<TensorId, Shape>, TensorId> views_;
  std::set<std::string> names_;
};

}  // namespace

bool split_axes(TensorProgram& program, const std::set<TensorId>& inlined) {
  const bool needed = std::any_of(program.exprs.begin(), program.exprs.end(), has_digits);
  if (!needed || !AxisSplitting(program, inlined).run()) return false;
  // Once readers have their axes, what they read can follow them.
  AxisSplitting(program, inlined).run();
  remove_dead_expressions(program);
  return true;
}

}  // namespace weft
