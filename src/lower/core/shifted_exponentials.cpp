#include "lower/core/shifted_exponentials.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace weft::lowering {

namespace {

/// Values are compared through at most this many definitions, which bounds the work.
constexpr int kDeepestDefinition = 12;
constexpr int kMostComparisons = 2000;

/// `symbol[indices]` is the maximum of `value` over the variables `over`; the others mean what they
/// mean where the symbol is made.
struct Maximum {
  std::vector<IndexExpr> indices;
  ScalarRef value;
  std::set<int> over;
  bool at_once = false;  ///< made by one statement, of elements that are all there
};

class Finder {
 public:
  explicit Finder(const TileProgram& program) : program_(program) {}

  std::set<const Scalar*> run() {
    walk(program_.body, nullptr);
    return std::move(found_);
  }

 private:
  const TileVar& var(int id) const { return program_.vars[static_cast<size_t>(id)]; }
  bool is_kind(const Scalar& read, TileSymbol::Kind kind) const {
    return program_.symbols[static_cast<size_t>(read.symbol)].kind == kind;
  }

  void walk(const TileBody& body, const TileLoop* loop) {
    for (const TileNode& node : body) {
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          search(node.statement.value);
          record(node.statement, loop);
          break;
        case TileNode::Kind::kLoop:
          for (const TileLoop::Dim& d : node.loop->dims) dims_[d.origin] = &d;
          walk(node.loop->body, node.loop.get());
          break;
        case TileNode::Kind::kCondition:  // what may not run makes no maximum
          walk(node.condition->body, nullptr);
          break;
        case TileNode::Kind::kPack:
          for (const TilePack::Member& m : node.pack->members) walk(m.body, nullptr);
          break;
      }
    }
  }

  void record(const TileStatement& st, const TileLoop* loop) {
    const TileRef& target = st.targets[0];
    if (st.targets.size() != 1) return;
    if (target.next) return record_running(st, loop);
    if (st.combiner == TileCombiner::kNone) {
      definitions_[target.symbol] = &st;
      record_copy(st);
    } else if (st.combiner == TileCombiner::kMax) {
      record_reduction(st);
    }
  }

  /// A copy of a maximum is one; so is the maximum of widened values, converted back.
  void record_copy(const TileStatement& st) {
    const bool converts = is_conversion(*st.value);
    const Scalar& read = converts ? *st.value->operands[0] : *st.value;
    const Maximum* of = read.kind == Scalar::Kind::kRead ? maximum(read) : nullptr;
    if (of == nullptr || of->indices != st.targets[0].indices) return;
    Maximum m = *of;
    if (converts) {
      if (!is_conversion(*m.value)) return;
      const ScalarRef narrow = m.value->operands[0];
      const bool widened = is_float(m.value->type) && is_float(narrow->type) &&
                           byte_size(m.value->type) > byte_size(narrow->type);
      if (!widened || narrow->type != st.value->type) return;
      m.value = narrow;
    }
    maxima_[st.targets[0].symbol] = std::move(m);
  }

  static bool is_conversion(const Scalar& s) {
    return s.kind == Scalar::Kind::kApply && s.op == ScalarOp::kConvert;
  }

  /// m' = max(m, e), once in every iteration of its loop. Where e is the maximum of the iteration's
  /// own elements, m' is none below it.
  void record_running(const TileStatement& st, const TileLoop* loop) {
    const Scalar& v = *st.value;
    if (loop == nullptr || v.kind != Scalar::Kind::kApply || v.op != ScalarOp::kMax) return;
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const Scalar& old = *v.operands[k];
      if (old.kind != Scalar::Kind::kRead || old.symbol != st.targets[0].symbol || old.next ||
          old.indices != st.targets[0].indices) {
        continue;
      }
      const Scalar& own = *v.operands[1 - k];
      const Maximum* part = own.kind == Scalar::Kind::kRead ? maximum(own) : nullptr;
      if (part != nullptr && part->indices == own.indices && own.indices == old.indices)
        next_maxima_[st.targets[0].symbol] = *part;
      Maximum m{st.targets[0].indices, v.operands[1 - k], {}};
      for (const TileLoop::Dim& d : loop->dims) {
        m.over.insert(d.origin);
        if (d.offset >= 0) m.over.insert(d.offset);
      }
      for (const IndexExpr& e : m.indices) {
        for (const int id : variables(e)) m.over.erase(id);
      }
      maxima_[st.targets[0].symbol] = std::move(m);
    }
  }

  /// M = max[jj] e, or M = max[jj] m[jj] of a running maximum m[.j] with as many copies.
  void record_reduction(const TileStatement& st) {
    Maximum m{st.targets[0].indices, st.value, {}};
    const Maximum* running = st.value->kind == Scalar::Kind::kRead ? maximum(*st.value) : nullptr;
    if (running == nullptr) {
      m.over.insert(st.reduce_axes.begin(), st.reduce_axes.end());
      m.at_once = true;
    } else {
      m.value = running->value;
      m.over = running->over;
      for (size_t a = 0; a < running->indices.size(); ++a) {
        const IndexExpr &made = running->indices[a], &read = st.value->indices[a];
        if (made == read) continue;
        const bool whole = made.is_var() && read.is_var() &&
                           var(made.var_id()).extent == var(read.var_id()).extent &&
                           std::count(st.reduce_axes.begin(), st.reduce_axes.end(), read.var_id());
        if (!whole) return;
        m.over.insert(made.var_id());
      }
    }
    maxima_[st.targets[0].symbol] = std::move(m);
  }

  const Maximum* maximum(const Scalar& read) const {
    const auto& maxima = read.next ? next_maxima_ : maxima_;
    const auto it = maxima.find(read.symbol);
    return it == maxima.end() ? nullptr : &it->second;
  }

  /// m of `m == -inf ? c : m`: what is no more than -inf stays so, whatever finite c is subtracted.
  ScalarRef where_finite(const ScalarRef& shift) const {
    const ScalarRef made = definition(*shift);
    const ScalarRef& s = made ? made : shift;
    if (s->kind == Scalar::Kind::kRead && s->next) return s;
    if (s->kind != Scalar::Kind::kApply || s->op != ScalarOp::kSelect) return shift;
    const Scalar &test = *s->operands[0], &otherwise = *s->operands[1], &m = *s->operands[2];
    const auto is_constant = [](const Scalar& c, auto holds) {
      return c.kind == Scalar::Kind::kConstant && is_float(c.type) && holds(c.value.f);
    };
    const bool tests = test.kind == Scalar::Kind::kApply && test.op == ScalarOp::kEq &&
                       m.kind == Scalar::Kind::kRead &&
                       test.operands[0]->kind == Scalar::Kind::kRead &&
                       test.operands[0]->symbol == m.symbol && test.operands[0]->next == m.next &&
                       test.operands[0]->indices == m.indices;
    const bool finite =
        tests && is_constant(*test.operands[1], [](double c) { return std::isinf(c) && c < 0; }) &&
        is_constant(otherwise, [](double c) { return std::isfinite(c); });
    return finite ? s->operands[2] : shift;
  }

  void search(const ScalarRef& value) {
    visit(value, [&](const Scalar& n) {
      if (n.kind != Scalar::Kind::kApply || n.op != ScalarOp::kExp) return;
      ScalarRef exponent = n.operands[0];
      if (const ScalarRef d = definition(*exponent)) exponent = d;
      if (exponent->kind != Scalar::Kind::kApply || exponent->op != ScalarOp::kSub) return;
      comparisons_ = 0;
      if (is_no_less(where_finite(exponent->operands[1]), exponent->operands[0], 0))
        found_.insert(&n);
    });
  }

  /// Whether `shift` is a maximum over values among which is `e`, or the larger of that and
  /// another.
  bool is_no_less(const ScalarRef& shift, const ScalarRef& e, int depth) {
    if (depth > kDeepestDefinition || ++comparisons_ > kMostComparisons) return false;
    if (shift->kind == Scalar::Kind::kRead) {
      if (const Maximum* of = maximum(*shift); of != nullptr && of->indices == shift->indices) {
        const bool whole = shift->next || of->at_once;
        if (is_same(of->value, e, of->over, whole) && same_ranges()) return true;
      }
      const ScalarRef made = definition(*shift);
      return made && is_no_less(made, e, depth + 1);
    }
    if (shift->kind != Scalar::Kind::kApply || shift->op != ScalarOp::kMax) return false;
    return std::ranges::any_of(shift->operands, [&](const ScalarRef& o) {
      return is_same(o, e, {}, false) || is_no_less(o, e, depth + 1);
    });
  }

  bool is_same(const ScalarRef& a, const ScalarRef& b, const std::set<int>& over, bool whole) {
    renamed_.clear();
    whole_ = whole;
    return same(a, b, over, 0);
  }

  /// Whether `b` is `a` with variables of `over` renamed.
  bool same(const ScalarRef& a, const ScalarRef& b, const std::set<int>& over, int depth) {
    if (depth > kDeepestDefinition || ++comparisons_ > kMostComparisons) return false;
    if (a->kind == Scalar::Kind::kRead && b->kind == Scalar::Kind::kRead &&
        a->symbol == b->symbol && a->next == b->next) {
      return same_children(*a, *b, over, depth);
    }
    if (const ScalarRef d = definition(*a)) return same(d, b, over, depth + 1);
    if (const ScalarRef d = definition(*b)) return same(a, d, over, depth + 1);
    if (a->kind != b->kind || a->type != b->type) return false;
    switch (a->kind) {
      case Scalar::Kind::kConstant:
        return a->value == b->value;
      case Scalar::Kind::kIndex:
        return same_index(a->index, b->index, over);
      case Scalar::Kind::kRead:
        return false;
      case Scalar::Kind::kApply:
        return a->op == b->op && same_children(*a, *b, over, depth);
    }
    return false;
  }

  bool same_children(const Scalar& a, const Scalar& b, const std::set<int>& over, int depth) {
    if (a.operands.size() != b.operands.size() || !a.fill != !b.fill) return false;
    for (size_t i = 0; i < a.indices.size(); ++i) {
      if (!same_index(a.indices[i], b.indices[i], over)) return false;
    }
    for (size_t i = 0; i < a.operands.size(); ++i) {
      if (!same(a.operands[i], b.operands[i], over, depth)) return false;
    }
    return !a.fill || same(a.fill, b.fill, over, depth);
  }

  /// What a value read at the coordinates at which it was made is.
  ScalarRef definition(const Scalar& read) const {
    if (read.kind != Scalar::Kind::kRead || !is_kind(read, TileSymbol::Kind::kValue))
      return nullptr;
    const auto it = definitions_.find(read.symbol);
    if (it == definitions_.end()) return nullptr;
    const TileStatement& st = *it->second;
    const bool whole = st.targets[0].indices == read.indices && st.value->type == read.type;
    return whole ? st.value : nullptr;
  }

  bool same_index(const IndexExpr& a, const IndexExpr& b, const std::set<int>& over) {
    if (a.op() != b.op()) return false;
    switch (a.op()) {
      case IndexOp::kConst:
        return a.constant() == b.constant();
      case IndexOp::kVar: {
        const int from = a.var_id(), to = b.var_id();
        if (renamed_.emplace(from, to).first->second != to) return false;
        if (over.count(from) == 0) return from == to;
        // Inside its own loop a running maximum holds the iteration's value behind its update
        // alone.
        return from != to || whole_ ||
               (from < kRuntimeIndexBase && var(from).kind == TileVar::Kind::kAxis);
      }
      default:
        return same_index(a.lhs(), b.lhs(), over) && same_index(a.rhs(), b.rhs(), over);
    }
  }

  /// Each renamed variable runs over no more than the one that it stands for.
  bool same_ranges() const {
    return std::all_of(renamed_.begin(), renamed_.end(), [this](const auto& pair) {
      const auto& [a, b] = pair;
      if (a == b) return true;
      if (a >= kRuntimeIndexBase || b >= kRuntimeIndexBase) return false;
      const bool origin = var(a).kind == TileVar::Kind::kOrigin;
      if (origin != (var(b).kind == TileVar::Kind::kOrigin)) return false;
      if (!origin) return var(a).extent == var(b).extent;
      const TileLoop::Dim &x = *dims_.at(a), &y = *dims_.at(b);
      return x.begin == y.begin && x.end == y.end && x.step == y.step;
    });
  }

  const TileProgram& program_;
  std::map<int, const TileLoop::Dim*> dims_;  ///< by origin
  std::map<int, const TileStatement*> definitions_;
  std::map<int, Maximum> maxima_, next_maxima_;  ///< of the latter m' is no less, behind its update
  std::map<int, int> renamed_;
  int comparisons_ = 0;
  bool whole_ = false;  ///< the maximum at hand has the elements of the iteration at hand
  std::set<const Scalar*> found_;
};

}  // namespace

std::set<const Scalar*> find_shifted_exponentials(const TileProgram& program) {
  return Finder(program).run();
}

}  // namespace weft::lowering
