#include "expr/reductions/neutral_terms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace weft {

namespace {

/// An integer scalar of indices alone as an index; indices are far from what 32 bits hold.
std::optional<IndexExpr> as_index(const ScalarRef& s) {
  if (s->type != DType::kI32 && s->type != DType::kI64) return std::nullopt;
  if (s->kind == Scalar::Kind::kIndex) return s->index;
  if (s->kind == Scalar::Kind::kConstant) return IndexExpr(s->value.i);
  if (s->kind != Scalar::Kind::kApply) return std::nullopt;
  std::vector<IndexExpr> of;
  for (const ScalarRef& o : s->operands) {
    const std::optional<IndexExpr> index = as_index(o);
    if (!index) return std::nullopt;
    of.push_back(*index);
  }
  switch (s->op) {
    case ScalarOp::kAdd:
      return of[0] + of[1];
    case ScalarOp::kSub:
      return of[0] - of[1];
    case ScalarOp::kConvert:
      return of[0];
    default:
      return std::nullopt;
  }
}

/// A comparison: `form` >= 0.
std::optional<IndexExpr> as_bound(const ScalarRef& s) {
  if (s->kind != Scalar::Kind::kApply || s->operands.size() != 2) return std::nullopt;
  const std::optional<IndexExpr> a = as_index(s->operands[0]), b = as_index(s->operands[1]);
  if (!a || !b) return std::nullopt;
  switch (s->op) {
    case ScalarOp::kLt:
      return *b - *a - 1;
    case ScalarOp::kLe:
      return *b - *a;
    case ScalarOp::kGt:
      return *a - *b - 1;
    case ScalarOp::kGe:
      return *a - *b;
    default:
      return std::nullopt;
  }
}

/// What is known of a scalar where a comparison has a side.
struct Known {
  enum class Kind : uint8_t {
    kUnknown,
    kNumber,     ///< a constant; of bools 0 or 1
    kReference,  ///< see TermQuestion
    kNothing,    ///< 0 wherever the row's reference is a number
    kTimes,      ///< 0 * rest
  };
  Kind kind = Kind::kUnknown;
  double number = 0;
  ScalarRef rest;
  bool assumed = false;  ///< of a mask that is added to something, or finite
  bool is_low = false;   ///< of a finite one

  bool is(double value) const { return kind == Kind::kNumber && number == value; }
  bool is_zero() const { return kind == Kind::kNothing || is(0); }
  static Known of(double value) { return {Kind::kNumber, value, nullptr}; }
  /// The same, by what was assumed of others, too.
  Known as(const Known& other) const {
    Known out = *this;
    out.assumed |= other.assumed;
    out.is_low |= other.is_low;
    return out;
  }
  Known as(const Known& a, const Known& b) const { return as(a).as(b); }
};

/// Finite numbers from here on stand for infinite ones, as masks: the lowest of float16.
constexpr double kLowest = 65504;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Knowledge {
 public:
  Knowledge(const TermQuestion& question, const ScalarRef& comparison, bool holds)
      : question_(question), comparison_(comparison), holds_(holds) {}

  Known of(const ScalarRef& s) const {
    if (equal(s, comparison_)) return Known::of(holds_ ? 1 : 0);
    switch (s->kind) {
      case Scalar::Kind::kConstant:
        return Known::of(is_float(s->type) ? s->value.f : static_cast<double>(s->value.i));
      case Scalar::Kind::kRead:
        return {question_.is_reference(*s) ? Known::Kind::kReference : Known::Kind::kUnknown, 0,
                nullptr};
      case Scalar::Kind::kApply:
        return of_apply(s);
      case Scalar::Kind::kIndex:
        break;
    }
    return {};
  }

 private:
  Known of_apply(const ScalarRef& s) const {
    const Known a = of(s->operands[0]);
    switch (s->op) {
      case ScalarOp::kSelect:
        return of_choice(a, of(s->operands[1]), of(s->operands[2]));
      case ScalarOp::kAnd:
      case ScalarOp::kOr:
        return s->type == DType::kBool ? of_junction(s, a) : Known{};
      case ScalarOp::kNot:
        return s->type == DType::kBool && a.kind == Known::Kind::kNumber ? Known::of(1 - a.number)
                                                                         : Known{};
      case ScalarOp::kNeg:
        return a.kind == Known::Kind::kNumber ? Known::of(-a.number).as(a) : Known{};
      case ScalarOp::kConvert:
        return is_float(s->type) && is_float(s->operands[0]->type) &&
                       (!is_finite_number(a) ||
                        byte_size(s->type) >= byte_size(s->operands[0]->type))
                   ? a
                   : Known{};
      case ScalarOp::kExp:
        return a.is(-kInfinite) ? nothing().as(a) : Known{};
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
        return of_sum(s->op, a, of(s->operands[1]));
      case ScalarOp::kMul:
        return of_product(s, a, of(s->operands[1]));
      case ScalarOp::kDiv:
        return of_quotient(a, of(s->operands[1]));
      default:
        return {};
    }
  }

  static bool is_finite_number(const Known& k) {
    return k.kind == Known::Kind::kNumber && std::isfinite(k.number) && k.number != 0;
  }

  static Known of_choice(const Known& condition, const Known& yes, const Known& no) {
    if (condition.kind == Known::Kind::kNumber) return condition.number != 0 ? yes : no;
    if (yes.kind == Known::Kind::kNumber && no.is(yes.number)) return yes;
    return yes.is_zero() && no.is_zero() ? nothing().as(yes, no) : Known{};
  }

  static Known nothing() { return {Known::Kind::kNothing, 0, nullptr}; }

  Known of_junction(const ScalarRef& s, const Known& a) const {
    const double decides = s->op == ScalarOp::kOr ? 1 : 0;
    const Known b = of(s->operands[1]);
    if (a.is(decides) || b.is(decides)) return Known::of(decides);
    return a.kind == Known::Kind::kNumber && b.kind == Known::Kind::kNumber ? Known::of(1 - decides)
                                                                            : Known{};
  }

  /// An infinity stays what it is beside numbers, and beside a reference: one that is infinite has
  /// the sign of its terms' extremum, which these are on the other side of. Beside anything else it
  /// does where that is a number, and so does the lowest of numbers where that is far above it.
  static Known of_sum(ScalarOp op, const Known& a, const Known& b) {
    const auto infinite = [](const Known& k) {
      return k.kind == Known::Kind::kNumber && std::isinf(k.number);
    };
    for (const auto& [mask, other, sign] :
         {std::tuple(&a, &b, 1), std::tuple(&b, &a, op == ScalarOp::kSub ? -1 : 1)}) {
      if (mask->kind != Known::Kind::kNumber || !(std::abs(mask->number) >= kLowest)) continue;
      Known out = Known::of(std::copysign(kInfinite, mask->number) * sign).as(*mask, *other);
      const bool is_number = other->kind == Known::Kind::kNumber && std::isfinite(other->number);
      if (infinite(*mask) && (is_number || other->kind == Known::Kind::kReference)) return out;
      if (other->kind != Known::Kind::kUnknown && other->kind != Known::Kind::kReference) continue;
      out.assumed = true;
      out.is_low |= !infinite(*mask);
      return out;
    }
    return {};
  }

  Known of_product(const ScalarRef& s, const Known& a, const Known& b) const {
    for (const auto& [one, other, rest] :
         {std::tuple(&a, &b, s->operands[1]), std::tuple(&b, &a, s->operands[0])}) {
      const bool number = other->kind == Known::Kind::kNumber && std::isfinite(other->number);
      if (one->kind == Known::Kind::kNumber && std::isinf(one->number) && number &&
          other->number != 0)
        return Known::of(one->number * (other->number < 0 ? -1 : 1)).as(*one);
      if (one->is_zero() && (number || other->is_zero())) return nothing().as(*one, *other);
      if (one->is_zero() && from_outside(rest)) return Known{Known::Kind::kTimes, 0, rest}.as(*one);
    }
    return {};
  }

  static Known of_quotient(const Known& a, const Known& b) {
    if (b.kind != Known::Kind::kNumber || !std::isfinite(b.number) || b.number == 0) return {};
    if (a.kind == Known::Kind::kNumber && std::isinf(a.number))
      return Known::of(a.number * (b.number < 0 ? -1 : 1)).as(a);
    return a.is_zero() ? nothing().as(a) : Known{};
  }

  bool from_outside(const ScalarRef& s) const {
    bool all = s->type == DType::kF32;
    visit(s, [&](const Scalar& node) {
      if (node.kind == Scalar::Kind::kRead)
        all &= node.operands.empty() && !node.fill && is_float(node.type) &&
               question_.is_outside(node);
    });
    return all;
  }

  const TermQuestion& question_;
  const ScalarRef& comparison_;
  const bool holds_;
};

/// Whether such a term leaves what was reduced as it was; of a sum, but for what it still adds. An
/// extremum that has other terms is none of the lowest numbers.
bool is_neutral(Known* term, Combiner combiner) {
  const auto is_far = [&](double sign) {
    if (term->kind != Known::Kind::kNumber || !(term->number * sign >= kLowest)) return false;
    if (std::isinf(term->number)) return true;
    term->assumed = term->is_low = true;
    return true;
  };
  switch (combiner) {
    case Combiner::kMax:
      return is_far(-1);
    case Combiner::kMin:
      return is_far(1);
    case Combiner::kSum:
      return term->is_zero() || term->kind == Known::Kind::kTimes;
    default:
      return false;
  }
}

class ReachFinder {
 public:
  ReachFinder(const ScalarRef& term, const TermQuestion& question)
      : term_(term), question_(question) {}

  TermReach run() {
    search(term_);
    if (has_low_ && (adds_from_outside(term_) || !reaches_all_rows())) return {};
    return std::move(out_);
  }

 private:
  void search(const ScalarRef& s) {
    if (s->kind != Scalar::Kind::kApply) return;
    if (const std::optional<IndexExpr> bound = as_bound(s)) {
      try_side(s, true, *bound);
      try_side(s, false, IndexExpr(-1) - *bound);
      return;
    }
    for (const ScalarRef& o : s->operands) search(o);
  }

  /// If terms are neutral where the comparison does not hold, those with `bound` >= 0 are reached.
  void try_side(const ScalarRef& comparison, bool holds, const IndexExpr& bound) {
    AffineForm form;
    if (!as_affine(bound, &form)) return;
    const int64_t k = form.coefficient(question_.along);
    if (k != 1 && k != -1) return;
    IndexExpr others = form.constant;
    for (const auto& [var, factor] : form.terms) {
      if (var != question_.along) others = others + IndexExpr::var(var) * factor;
    }
    Known beyond = Knowledge(question_, comparison, !holds).of(term_);
    if (!is_neutral(&beyond, question_.combiner) || uses_more_than_axes(others)) return;
    const ScalarRef rest = beyond.kind == Known::Kind::kTimes ? beyond.rest : nullptr;
    if (!adds_alike(rest)) return;
    out_.beyond = rest;
    out_.assumed |= beyond.assumed;
    has_low_ |= beyond.is_low;
    std::vector<IndexExpr>& side = k == 1 ? out_.first : out_.last;
    const IndexExpr at = k == 1 ? others * -1 : others;
    if (std::ranges::find(side, at) == side.end()) side.push_back(at);
  }

  /// Whether something is added to what is read from memory alone: to another mask, say, that may
  /// be as low in all of a row as this one is beyond its reach.
  bool adds_from_outside(const ScalarRef& s) const {
    if (s->kind != Scalar::Kind::kApply) return false;
    const bool adds = s->op == ScalarOp::kAdd || s->op == ScalarOp::kSub;
    return std::ranges::any_of(s->operands, [&](const ScalarRef& o) {
      return (adds && is_from_memory(o)) || adds_from_outside(o);
    });
  }
  bool is_from_memory(const ScalarRef& s) const {
    if (s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kSelect)
      return is_from_memory(s->operands[1]) || is_from_memory(s->operands[2]);
    bool outside = false, inside = false;
    visit(s, [&](const Scalar& node) {
      if (node.kind != Scalar::Kind::kRead) return;
      (question_.is_outside(node) && !question_.is_reference(node) ? outside : inside) = true;
    });
    return outside && !inside;
  }

  /// Whether every row has a term within reach.
  bool reaches_all_rows() const {
    if (!question_.range) return false;
    std::vector<IndexExpr> first = out_.first, last = out_.last;
    const Interval whole = question_.range(question_.along);
    first.emplace_back(whole.lo);
    last.emplace_back(whole.hi);
    for (const IndexExpr& f : first) {
      for (const IndexExpr& l : last) {
        if (range_of(simplify(l - f, question_.range), question_.range).lo < 0) return false;
      }
    }
    return true;
  }

  /// Whether terms out of reach add what is known of others, and that can be said.
  bool adds_alike(const ScalarRef& rest) const {
    const bool same =
        rest == nullptr || out_.beyond == nullptr ? rest == out_.beyond : equal(rest, out_.beyond);
    if (out_.bounded() && !same) return false;
    bool more = false;
    if (rest) {
      visit(rest, [&](const Scalar& node) {
        for (const IndexExpr& i : node.indices) more |= uses_more_than_axes(i);
      });
    }
    return !more;
  }

  bool uses_more_than_axes(const IndexExpr& e) const {
    return std::ranges::any_of(variables(e),
                               [&](int v) { return v >= question_.axes && v != question_.along; });
  }

  const ScalarRef& term_;
  const TermQuestion& question_;
  TermReach out_;
  bool has_low_ = false;  ///< some bound is of a finite mask
};

}  // namespace

TermReach reach_of(const ScalarRef& term, const TermQuestion& question) {
  return ReachFinder(term, question).run();
}

}  // namespace weft
