#include "expr/reductions/homomorphism.h"

#include <algorithm>
#include <cmath>

namespace weft {

namespace {

bool is_op(const ScalarRef& f, ScalarOp op) {
  return f->kind == Scalar::Kind::kApply && f->op == op;
}

bool is_float_constant(const ScalarRef& f) {
  return f->kind == Scalar::Kind::kConstant && is_float(f->type);
}

void add_term(LinearForm& to, const ScalarRef& atom, double coefficient) {
  const auto known =
      std::ranges::find_if(to.terms, [&](const auto& t) { return equal(t.atom, atom); });
  if (known != to.terms.end()) {
    known->coefficient += coefficient;
  } else {
    to.terms.push_back({atom, coefficient});
  }
}

void add_form(LinearForm& to, const ScalarRef& f, double factor) {
  if (is_float_constant(f)) {
    to.constant += factor * f->value.f;
  } else if (is_op(f, ScalarOp::kAdd) || is_op(f, ScalarOp::kSub)) {
    add_form(to, f->operands[0], factor);
    add_form(to, f->operands[1], f->op == ScalarOp::kAdd ? factor : -factor);
  } else if (is_op(f, ScalarOp::kNeg)) {
    add_form(to, f->operands[0], -factor);
  } else if (is_op(f, ScalarOp::kMul) && is_float_constant(f->operands[1])) {
    add_form(to, f->operands[0], factor * f->operands[1]->value.f);
  } else if (is_op(f, ScalarOp::kMul) && is_float_constant(f->operands[0])) {
    add_form(to, f->operands[1], factor * f->operands[0]->value.f);
  } else if (is_op(f, ScalarOp::kDiv) && is_float_constant(f->operands[1])) {
    add_form(to, f->operands[0], factor / f->operands[1]->value.f);
  } else if (is_op(f, ScalarOp::kConvert) && is_float(f->operands[0]->type) && is_float(f->type)) {
    add_form(to, f->operands[0], factor);
  } else {
    add_term(to, f, factor);
  }
}

bool close(double a, double b) {
  constexpr double kRounding = 1e-6;
  return std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b));
}

/// What a scalar holds, however deep.
struct Contents {
  bool values = false;  ///< some of those to be split off
  bool moves = false;   ///< something that changes along the reduction
};

Contents contents_of(const ScalarRef& f, const SplitQuestion& question) {
  Contents out;
  visit(f, [&](const Scalar& node) {
    if (node.kind == Scalar::Kind::kRead) out.values |= question.is_value(node);
    out.moves |= question.moves(node);
  });
  return out;
}

Error no_factor(const ScalarRef& f) {
  return unsupported("what a later reduction has of an earlier one stands in '" +
                     (f->kind == Scalar::Kind::kApply ? std::string(scalar_op_name(f->op))
                                                      : std::string("a value")) +
                     "', out of which it cannot be taken");
}

class ProductSplitter {
 public:
  explicit ProductSplitter(const SplitQuestion& question) : question_(question) {}

  Result<Homomorphism> run(const ScalarRef& f) {
    const Contents has = contents_of(f, question_);
    if (!has.values) return Homomorphism{};
    if (f->kind != Scalar::Kind::kApply) return base(f, has);
    switch (f->op) {
      case ScalarOp::kExp:
        return exponential(f);
      case ScalarOp::kNeg:
        return run(f->operands[0]);
      case ScalarOp::kConvert:
        return is_float(f->type) && is_float(f->operands[0]->type)
                   ? run(f->operands[0])
                   : Result<Homomorphism>(no_factor(f));
      case ScalarOp::kMul:
      case ScalarOp::kDiv:
        return product(f);
      case ScalarOp::kSelect:
        return choice(f);
      default:
        return base(f, has);
    }
  }

 private:
  Result<Homomorphism> base(const ScalarRef& f, const Contents& has) const {
    if (has.moves) return no_factor(f);
    Homomorphism out;
    out.powers.push_back({f, false});
    return out;
  }

  Result<Homomorphism> exponential(const ScalarRef& f) const {
    const LinearForm form = linear_form(f->operands[0]);
    Homomorphism out;
    LinearForm rest;
    rest.constant = form.constant;
    for (const LinearForm::Term& term : form.terms) {
      const ScalarRef& atom = term.atom;
      const Contents has = contents_of(atom, question_);
      if (!has.values) {
        rest.terms.push_back(term);
      } else if (has.moves) {
        return no_factor(atom);
      } else if (atom->kind == Scalar::Kind::kRead) {
        out.exponents.push_back({atom, term.coefficient, {}, {}});
      } else if (const auto unless = replaced_value(atom)) {
        out.exponents.push_back({atom->operands[2], term.coefficient, {}, unless});
      } else if (is_op(atom, ScalarOp::kLog) && std::abs(term.coefficient) == 1) {
        out.powers.push_back({atom->operands[0], term.coefficient < 0});
      } else {
        return no_factor(atom);
      }
    }
    for (Homomorphism::Exponent& e : out.exponents) e.beside = rest;
    return out;
  }

  /// Of `s == c ? finite : s` the c.
  std::optional<double> replaced_value(const ScalarRef& f) const {
    if (!is_op(f, ScalarOp::kSelect) || !is_op(f->operands[0], ScalarOp::kEq)) return std::nullopt;
    const ScalarRef &value = f->operands[2], &other = f->operands[1];
    const ScalarRef &left = f->operands[0]->operands[0], &right = f->operands[0]->operands[1];
    const bool is_value = value->kind == Scalar::Kind::kRead && question_.is_value(*value);
    if (!is_value || !equal(left, value) || !is_float_constant(right) ||
        !is_float_constant(other) || !std::isfinite(other->value.f))
      return std::nullopt;
    return right->value.f;
  }

  Result<Homomorphism> product(const ScalarRef& f) {
    WEFT_ASSIGN_OR_RETURN(Homomorphism out, run(f->operands[0]));
    WEFT_ASSIGN_OR_RETURN(Homomorphism right, run(f->operands[1]));
    const bool inverse = f->op == ScalarOp::kDiv;
    for (Homomorphism::Exponent& e : right.exponents) {
      if (inverse) return no_factor(f);
      out.exponents.push_back(std::move(e));
    }
    for (const Homomorphism::Power& p : right.powers)
      out.powers.push_back({p.base, p.inverse != inverse});
    return out;
  }

  /// Of two branches, one of which is zero, the other's.
  Result<Homomorphism> choice(const ScalarRef& f) {
    if (contents_of(f->operands[0], question_).values) return no_factor(f);
    for (const size_t branch : {size_t{1}, size_t{2}}) {
      const ScalarRef& other = f->operands[3 - branch];
      if (is_float_constant(other) && other->value.f == 0) return run(f->operands[branch]);
    }
    return no_factor(f);
  }

  const SplitQuestion& question_;
};

}  // namespace

LinearForm linear_form(const ScalarRef& f) {
  LinearForm out;
  add_form(out, f, 1);
  std::erase_if(out.terms, [](const LinearForm::Term& t) { return t.coefficient == 0; });
  return out;
}

void add_to(LinearForm& to, const LinearForm& form, double factor) {
  to.constant += factor * form.constant;
  for (const LinearForm::Term& term : form.terms)
    add_term(to, term.atom, factor * term.coefficient);
  std::erase_if(to.terms, [](const LinearForm::Term& t) { return t.coefficient == 0; });
}

bool is_multiple(const LinearForm& a, const LinearForm& b, double factor) {
  if (a.terms.size() != b.terms.size() || !close(a.constant, factor * b.constant)) return false;
  return std::ranges::all_of(a.terms, [&](const LinearForm::Term& term) {
    return std::ranges::any_of(b.terms, [&](const LinearForm::Term& other) {
      return close(term.coefficient, factor * other.coefficient) && equal(term.atom, other.atom);
    });
  });
}

Result<Homomorphism> split_product(const ScalarRef& f, const SplitQuestion& question) {
  return ProductSplitter(question).run(f);
}

Result<Homomorphism> split_sum(const ScalarRef& f, const SplitQuestion& question) {
  Homomorphism out;
  for (const LinearForm::Term& term : linear_form(f).terms) {
    const Contents has = contents_of(term.atom, question);
    if (!has.values) continue;
    if (has.moves || term.atom->kind != Scalar::Kind::kRead) return no_factor(term.atom);
    out.summands.push_back(term);
  }
  return out;
}

}  // namespace weft
