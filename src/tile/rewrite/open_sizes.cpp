#include "tile/rewrite/open_sizes.h"

#include <cmath>
#include <map>
#include <utility>

namespace weft {

namespace {

/// Values beyond this stay numbers.
constexpr int64_t kLargestSize = int64_t{1} << 31;
/// `S + 3` stands for a number rather than another size up to this distance.
constexpr int64_t kMostOffset = 64;

/// Rebuilds `here`, comparing as it goes. The first difference that cannot be a size ends it.
class Merger {
 public:
  Merger(const TileProgram& here, const TileProgram& there) : here_(here), there_(there) {}

  std::optional<OpenTileProgram> run() {
    out_.program = here_;
    if (!same_frame()) return std::nullopt;
    // Shapes and bounds come first: what they name, the rest is said in terms of.
    for (size_t s = 0; s < here_.symbols.size(); ++s) open_shape(s);
    name_bounds(here_.body, there_.body);
    out_.program.body = merge(here_.body, there_.body);
    if (failed_) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool same_frame() const {
    if (here_.vars.size() != there_.vars.size() || here_.symbols.size() != there_.symbols.size() ||
        here_.parameters != there_.parameters || here_.blocks != there_.blocks ||
        here_.warps != there_.warps || here_.per_sm != there_.per_sm ||
        here_.one_cluster != there_.one_cluster || here_.cpu != there_.cpu)
      return false;
    for (size_t v = 0; v < here_.vars.size(); ++v) {
      if (here_.vars[v].kind != there_.vars[v].kind ||
          here_.vars[v].extent != there_.vars[v].extent)
        return false;
    }
    for (size_t s = 0; s < here_.symbols.size(); ++s) {
      const TileSymbol &a = here_.symbols[s], &b = there_.symbols[s];
      if (a.kind != b.kind || a.type != b.type || a.shape.size() != b.shape.size() ||
          a.layout != b.layout)
        return false;
    }
    return true;
  }

  void open_shape(size_t s) {
    const TileSymbol &a = here_.symbols[s], &b = there_.symbols[s];
    for (size_t d = 0; d < a.shape.size(); ++d) {
      IndexExpr& extent = out_.program.symbols[s].shape[d];
      if (a.shape[d] == b.shape[d]) continue;
      extent = named(a.shape[d], b.shape[d]);
      failed_ |= !a.layout.is_row_major();
    }
  }

  void name_bounds(const TileBody& a, const TileBody& b) {
    if (a.size() != b.size()) return;
    for (size_t n = 0; n < a.size(); ++n) {
      if (a[n].kind != TileNode::Kind::kLoop || b[n].kind != TileNode::Kind::kLoop) continue;
      const TileLoop &x = *a[n].loop, &y = *b[n].loop;
      for (size_t d = 0; d < x.dims.size() && d < y.dims.size(); ++d) {
        const IndexExpr &from = x.dims[d].end, &to = y.dims[d].end;
        if (from.is_const() && to.is_const() && !(from == to)) named(from, to);
      }
      name_bounds(x.body, y.body);
    }
  }

  IndexExpr fail() {
    failed_ = true;
    return 0;
  }

  /// A size of its own for two numbers.
  IndexExpr named(const IndexExpr& a, const IndexExpr& b) {
    if (!a.is_const() || !b.is_const()) return fail();
    return size(a.constant(), b.constant());
  }
  IndexExpr size(int64_t a, int64_t b) {
    if (a == b) return a;
    if (a < 1 || b < 1 || a > kLargestSize || b > kLargestSize) return fail();
    const auto it = sizes_.find({a, b});
    if (it != sizes_.end()) return IndexExpr::var(it->second);
    const auto number = std::to_string(sizes_.size());
    const TileVarId var = out_.program.add_var("S" + number, TileVar::Kind::kSize, 0);
    order_.push_back({{a, b}, var});
    sizes_.emplace(std::pair(a, b), var);
    out_.values.push_back(a);
    return IndexExpr::var(var);
  }

  /// Two numbers by the sizes that there are, else by one of their own.
  IndexExpr number(int64_t a, int64_t b) {
    if (a == b) return a;
    if (a < 0 && b < 0) return number(-a, -b) * -1;
    for (const auto& [pair, var] : order_) {
      const int64_t offset = a - pair.first;
      if (offset == b - pair.second && std::abs(offset) <= kMostOffset)
        return IndexExpr::var(var) + offset;
    }
    for (const auto& [pair, var] : order_) {
      const int64_t times = a / pair.first;
      if (times > 1 && times * pair.first == a && times * pair.second == b)
        return IndexExpr::var(var) * times;
    }
    return size(a, b);
  }

  IndexExpr merge(const IndexExpr& a, const IndexExpr& b) {
    if (failed_ || a == b) return a;
    AffineForm x, y;
    if (as_affine(a, &x) && as_affine(b, &y)) return merge(x, y);
    if (a.op() != b.op()) return fail();
    switch (a.op()) {
      case IndexOp::kConst:
        return number(a.constant(), b.constant());
      case IndexOp::kVar:
        return fail();
      case IndexOp::kAdd:
        return merge(a.lhs(), b.lhs()) + merge(a.rhs(), b.rhs());
      case IndexOp::kMul:
        return merge(a.lhs(), b.lhs()) * merge(a.rhs(), b.rhs());
      case IndexOp::kFloorDiv:
        if (!(a.rhs() == b.rhs())) return fail();
        return floor_div(merge(a.lhs(), b.lhs()), a.rhs().constant());
      case IndexOp::kMod:
        if (!(a.rhs() == b.rhs())) return fail();
        return mod(merge(a.lhs(), b.lhs()), a.rhs().constant());
      case IndexOp::kMin:
        return min(merge(a.lhs(), b.lhs()), merge(a.rhs(), b.rhs()));
      case IndexOp::kMax:
        return max(merge(a.lhs(), b.lhs()), merge(a.rhs(), b.rhs()));
    }
    return fail();
  }

  IndexExpr merge(const AffineForm& a, const AffineForm& b) {
    if (a.terms.size() != b.terms.size()) return fail();
    IndexExpr out = number(a.constant, b.constant);
    for (size_t t = 0; t < a.terms.size(); ++t) {
      if (a.terms[t].first != b.terms[t].first) return fail();
      out = out + IndexExpr::var(a.terms[t].first) * number(a.terms[t].second, b.terms[t].second);
    }
    return out;
  }

  std::vector<IndexExpr> merge(const std::vector<IndexExpr>& a, const std::vector<IndexExpr>& b) {
    std::vector<IndexExpr> out;
    if (a.size() != b.size()) failed_ = true;
    for (size_t i = 0; i < a.size() && !failed_; ++i) out.push_back(merge(a[i], b[i]));
    return out;
  }

  static bool same_bits(const ScalarValue& a, const ScalarValue& b) {
    return a.type == b.type && a.i == b.i && (a.f == b.f || (std::isnan(a.f) && std::isnan(b.f))) &&
           std::signbit(a.f) == std::signbit(b.f);
  }

  /// The number whose value, or reciprocal in the type at hand, a constant is; 0 for none.
  static int64_t whole(const ScalarValue& v, bool reciprocal) {
    if (!is_float(v.type)) return reciprocal ? 0 : v.i;
    const double x = reciprocal ? 1 / v.f : v.f;
    const double n = std::round(x);
    if (!(n >= 1 && n <= 0x1p24)) return 0;
    const ScalarValue exact = float_value(v.type, reciprocal ? 1 / n : n);
    return exact.f == v.f ? static_cast<int64_t>(n) : 0;
  }

  ScalarRef constant(const ScalarRef& a, const ScalarRef& b) {
    if (same_bits(a->value, b->value)) return a;
    if (a->value.type != b->value.type || a->type == DType::kBool) return fail(a);
    for (const bool reciprocal : {false, true}) {
      const int64_t x = whole(a->value, reciprocal), y = whole(b->value, reciprocal);
      if (is_float(a->type) && (x == 0 || y == 0)) continue;
      if (reciprocal && !is_float(a->type)) continue;
      ScalarRef size = scalar_convert(scalar_index(number(x, y)), a->type);
      if (!reciprocal) return size;
      return scalar_apply(ScalarOp::kDiv, {scalar_constant(float_value(a->type, 1)), size},
                          a->type);
    }
    return fail(a);
  }
  ScalarRef fail(const ScalarRef& any) {
    failed_ = true;
    return any;
  }

  ScalarRef merge(const ScalarRef& a, const ScalarRef& b) {
    if (failed_ || a == b) return a;
    if (!a || !b) return fail(a);
    const auto key = std::pair(a.get(), b.get());
    if (const auto it = scalars_.find(key); it != scalars_.end()) return it->second;
    const ScalarRef merged = merge_node(a, b);
    scalars_.emplace(key, merged);
    return merged;
  }

  ScalarRef merge_node(const ScalarRef& a, const ScalarRef& b) {
    if (a->kind != b->kind || a->type != b->type || a->op != b->op || a->symbol != b->symbol ||
        a->next != b->next || a->operands.size() != b->operands.size())
      return fail(a);
    if (a->kind == Scalar::Kind::kConstant) return constant(a, b);
    auto out = std::make_shared<Scalar>(*a);
    out->index = merge(a->index, b->index);
    out->indices = merge(a->indices, b->indices);
    for (size_t o = 0; o < a->operands.size(); ++o)
      out->operands[o] = merge(a->operands[o], b->operands[o]);
    out->fill = merge(a->fill, b->fill);
    return out;
  }

  TileRef merge(const TileRef& a, const TileRef& b) {
    failed_ |= a.symbol != b.symbol || a.next != b.next;
    return {a.symbol, merge(a.indices, b.indices), a.next};
  }

  TileStatement merge(const TileStatement& a, const TileStatement& b) {
    failed_ |= a.targets.size() != b.targets.size() || a.assign != b.assign ||
               a.combiner != b.combiner || a.reduce_axes != b.reduce_axes || a.unit != b.unit ||
               a.type != b.type || a.demand != b.demand || !(a.place == b.place);
    TileStatement out = a;
    for (size_t t = 0; t < a.targets.size() && !failed_; ++t)
      out.targets[t] = merge(a.targets[t], b.targets[t]);
    out.value = merge(a.value, b.value);
    return out;
  }

  TileLoop merge(const TileLoop& a, const TileLoop& b) {
    TileLoop out = a;
    failed_ |= a.kind != b.kind || a.dims.size() != b.dims.size() || a.stages != b.stages ||
               a.ahead != b.ahead || a.by_cluster != b.by_cluster ||
               a.carries.size() != b.carries.size();
    for (size_t d = 0; d < a.dims.size() && !failed_; ++d) {
      const TileLoop::Dim &x = a.dims[d], &y = b.dims[d];
      failed_ |=
          x.origin != y.origin || x.offset != y.offset || x.step != y.step || x.unroll != y.unroll;
      out.dims[d].begin = merge(x.begin, y.begin);
      out.dims[d].end = merge(x.end, y.end);
    }
    for (size_t c = 0; c < a.carries.size() && !failed_; ++c) {
      const TileCarry &x = a.carries[c], &y = b.carries[c];
      failed_ |= x.type != y.type || !(x.place == y.place);
      out.carries[c].target = merge(x.target, y.target);
      out.carries[c].initial = merge(x.initial, y.initial);
    }
    out.body = merge(a.body, b.body);
    return out;
  }

  TileBody merge(const TileBody& a, const TileBody& b) {
    TileBody out;
    failed_ |= a.size() != b.size();
    for (size_t n = 0; n < a.size() && !failed_; ++n) {
      const TileNode &x = a[n], &y = b[n];
      failed_ |= x.kind != y.kind;
      if (failed_) break;
      switch (x.kind) {
        case TileNode::Kind::kStatement:
          out.push_back(TileNode::of(merge(x.statement, y.statement)));
          break;
        case TileNode::Kind::kLoop:
          out.push_back(TileNode::of(merge(*x.loop, *y.loop)));
          break;
        case TileNode::Kind::kCondition:
          out.push_back(
              TileNode::of(TileCondition{merge(x.condition->condition, y.condition->condition),
                                         merge(x.condition->body, y.condition->body)}));
          break;
        case TileNode::Kind::kPack:
          out.push_back(TileNode::of(merge(*x.pack, *y.pack)));
          break;
      }
    }
    return out;
  }

  TilePack merge(const TilePack& a, const TilePack& b) {
    TilePack out;
    failed_ |= a.members.size() != b.members.size();
    for (size_t m = 0; m < a.members.size() && !failed_; ++m) {
      // A CPU's threads share out what the nests have, whatever a share says.
      const bool alike = a.members[m].share == b.members[m].share;
      failed_ |= !alike && !here_.cpu;
      out.members.push_back(
          {alike ? a.members[m].share : 1, merge(a.members[m].body, b.members[m].body)});
    }
    return out;
  }

  const TileProgram& here_;
  const TileProgram& there_;
  OpenTileProgram out_;
  using Numbers = std::pair<int64_t, int64_t>;
  std::map<Numbers, TileVarId> sizes_;
  std::vector<std::pair<Numbers, TileVarId>> order_;
  std::map<std::pair<const Scalar*, const Scalar*>, ScalarRef> scalars_;
  bool failed_ = false;
};

}  // namespace

std::optional<OpenTileProgram> open_sizes(const TileProgram& here, const TileProgram& there) {
  return Merger(here, there).run();
}

}  // namespace weft
