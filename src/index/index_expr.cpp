#include "index/index_expr.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include "index/index_node.h"
#include "support/check.h"

namespace weft {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 50;

size_t mix(size_t seed, size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2);
  return seed * 0xff51afd7ed558ccdULL;
}

/// Leaves that nearly every index uses, made once: constants and variables of small numbers.
constexpr int64_t kFirstShared = -2, kLastShared = 64;
using SharedNodes =
    std::array<std::shared_ptr<const IndexExpr::Node>, kLastShared - kFirstShared + 1>;

SharedNodes make_leaves(IndexOp op) {
  SharedNodes made;
  for (int64_t v = kFirstShared; v <= kLastShared; ++v) {
    made[static_cast<size_t>(v - kFirstShared)] = std::make_shared<const IndexExpr::Node>(op, v);
  }
  return made;
}

const SharedNodes& shared_constants() {
  static const SharedNodes kNodes = make_leaves(IndexOp::kConst);
  return kNodes;
}

const SharedNodes& shared_variables() {
  static const SharedNodes kNodes = make_leaves(IndexOp::kVar);
  return kNodes;
}

/// Whether the node is variable * constant or a variable: the parts of an affine sum.
bool is_affine_term(const IndexExpr& e) {
  return e.is_var() || (e.op() == IndexOp::kMul && e.lhs().is_var() && e.rhs().is_const());
}

}  // namespace

IndexExpr::Node::Node(IndexOp o, int64_t v)
    : op(o), affine(true), value(v), lhs(nullptr), rhs(nullptr) {
  hash = mix(static_cast<size_t>(o) + 1, static_cast<size_t>(v));
}

IndexExpr::Node::Node(IndexOp o, int64_t v, IndexExpr l, IndexExpr r)
    : op(o), value(v), lhs(std::move(l)), rhs(std::move(r)) {
  hash = mix(mix(static_cast<size_t>(o) + 1, lhs.hash()), rhs.hash());
  size = std::min(kMaxSize, 1 + lhs.tree_size() + rhs.tree_size());
  if (op == IndexOp::kAdd) {
    affine = lhs.node_->affine && (rhs.is_const() || is_affine_term(rhs));
  } else if (op == IndexOp::kMul) {
    affine = lhs.is_var() && rhs.is_const();
  }
}

IndexExpr::IndexExpr(int64_t constant) {
  if (constant >= kFirstShared && constant <= kLastShared) {
    node_ = shared_constants()[static_cast<size_t>(constant - kFirstShared)];
  } else {
    node_ = std::make_shared<const Node>(IndexOp::kConst, constant);
  }
}

IndexExpr IndexExpr::var(int id) {
  if (id >= kFirstShared && id <= kLastShared)
    return IndexExpr(shared_variables()[static_cast<size_t>(id - kFirstShared)]);
  return IndexExpr(std::make_shared<const Node>(IndexOp::kVar, id));
}

IndexExpr make_index(IndexOp op, const IndexExpr& lhs, const IndexExpr& rhs) {
  return IndexExpr(std::make_shared<const IndexExpr::Node>(op, 0, lhs, rhs));
}

const IndexExpr::Node& node_of(const IndexExpr& e) { return *e.node_; }

IndexOp IndexExpr::op() const { return node_->op; }
int64_t IndexExpr::constant() const { return node_->value; }
int IndexExpr::var_id() const { return static_cast<int>(node_->value); }
const IndexExpr& IndexExpr::lhs() const { return node_->lhs; }
const IndexExpr& IndexExpr::rhs() const { return node_->rhs; }
size_t IndexExpr::hash() const { return node_->hash; }
int64_t IndexExpr::tree_size() const { return node_->size; }

bool operator==(const IndexExpr& a, const IndexExpr& b) {
  if (a.node_ == b.node_) return true;
  if (a.node_->hash != b.node_->hash || a.node_->op != b.node_->op) return false;
  if (a.is_const() || a.is_var()) return a.node_->value == b.node_->value;
  return a.lhs() == b.lhs() && a.rhs() == b.rhs();
}

int compare(const IndexExpr& a, const IndexExpr& b) {
  if (&node_of(a) == &node_of(b)) return 0;
  if (a.op() != b.op()) return a.op() < b.op() ? -1 : 1;
  if (a.is_const() || a.is_var()) {
    const int64_t x = node_of(a).value, y = node_of(b).value;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a == b) return 0;
  const int left = compare(a.lhs(), b.lhs());
  return left != 0 ? left : compare(a.rhs(), b.rhs());
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r = 0;
  WEFT_CHECK(!__builtin_add_overflow(a, b, &r), "index arithmetic overflows");
  return r;
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  WEFT_CHECK(!__builtin_mul_overflow(a, b, &r), "index arithmetic overflows");
  return r;
}
int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t floor_modulo(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r < 0 ? r + b : r;
}

namespace {

IndexSum::Term term_of(const IndexExpr& e) {
  if (e.op() == IndexOp::kMul && e.rhs().is_const()) return {e.lhs(), e.rhs().constant()};
  return {e, 1};
}

/// Terms that most sums have at most: memory for them is asked for once.
constexpr size_t kUsualTerms = 4;

IndexExpr multiple(const IndexExpr& atom, int64_t coefficient) {
  return coefficient == 1 ? atom : make_index(IndexOp::kMul, atom, IndexExpr(coefficient));
}

}  // namespace

IndexSum take_apart(const IndexExpr& e) {
  IndexSum sum;
  const IndexExpr* rest = &e;
  if (rest->op() == IndexOp::kAdd && rest->rhs().is_const()) {
    sum.constant = rest->rhs().constant();
    rest = &rest->lhs();
  } else if (rest->is_const()) {
    sum.constant = rest->constant();
    return sum;
  }
  sum.terms.reserve(kUsualTerms);
  for (; rest->op() == IndexOp::kAdd; rest = &rest->lhs())
    sum.terms.push_back(term_of(rest->rhs()));
  sum.terms.push_back(term_of(*rest));
  std::reverse(sum.terms.begin(), sum.terms.end());
  return sum;
}

void add_multiple(const IndexExpr& e, int64_t factor, IndexSum* to) {
  const IndexOp op = e.op();
  if (op == IndexOp::kConst) {
    to->constant = checked_add(to->constant, checked_mul(e.constant(), factor));
  } else if (op != IndexOp::kAdd && op != IndexOp::kMul) {
    to->terms.push_back({e, factor});
  } else {
    IndexSum parts = take_apart(e);
    to->constant = checked_add(to->constant, checked_mul(parts.constant, factor));
    for (IndexSum::Term& part : parts.terms)
      to->terms.push_back({std::move(part.atom), checked_mul(part.coefficient, factor)});
  }
}

IndexExpr put_together(const IndexSum& sum) {
  IndexExpr result(sum.constant);
  bool first = true;
  for (const IndexSum::Term& term : sum.terms) {
    if (term.coefficient == 0) continue;
    const IndexExpr t = multiple(term.atom, term.coefficient);
    result = first ? t : make_index(IndexOp::kAdd, result, t);
    first = false;
  }
  if (!first && sum.constant != 0) {
    result = make_index(IndexOp::kAdd, result, IndexExpr(sum.constant));
  }
  return result;
}

IndexExpr put_together_unordered(IndexSum sum) {
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const auto& a, const auto& b) { return compare(a.atom, b.atom) < 0; });
  size_t kept = 0;
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    if (kept > 0 && sum.terms[kept - 1].atom == sum.terms[i].atom) {
      int64_t& c = sum.terms[kept - 1].coefficient;
      c = checked_add(c, sum.terms[i].coefficient);
    } else {
      if (kept != i) sum.terms[kept] = std::move(sum.terms[i]);
      ++kept;
    }
  }
  sum.terms.resize(kept);
  return put_together(sum);
}

IndexExpr operator+(const IndexExpr& a, const IndexExpr& b) {
  if (a.is_const() && b.is_const()) return IndexExpr(checked_add(a.constant(), b.constant()));
  if (a.is_const(0)) return b;
  if (b.is_const(0)) return a;
  if (a.is_const()) return b + a;
  if (b.is_const()) {
    const bool has_constant = a.op() == IndexOp::kAdd && a.rhs().is_const();
    if (!has_constant) return make_index(IndexOp::kAdd, a, b);
    const int64_t constant = checked_add(a.rhs().constant(), b.constant());
    return constant == 0 ? a.lhs() : make_index(IndexOp::kAdd, a.lhs(), IndexExpr(constant));
  }
  const IndexSum x = take_apart(a), y = take_apart(b);
  IndexSum sum;
  sum.constant = checked_add(x.constant, y.constant);
  sum.terms.reserve(x.terms.size() + y.terms.size());
  size_t i = 0, j = 0;
  while (i < x.terms.size() || j < y.terms.size()) {
    const int order = i == x.terms.size()   ? 1
                      : j == y.terms.size() ? -1
                                            : compare(x.terms[i].atom, y.terms[j].atom);
    if (order == 0) {
      sum.terms.push_back(
          {x.terms[i].atom, checked_add(x.terms[i].coefficient, y.terms[j].coefficient)});
      ++i;
      ++j;
    } else {
      sum.terms.push_back(order < 0 ? x.terms[i++] : y.terms[j++]);
    }
  }
  return put_together(sum);
}

namespace {

IndexExpr scaled(const IndexExpr& e, int64_t factor) {
  if (factor == 0) return IndexExpr(0);
  if (factor == 1) return e;
  IndexSum sum = take_apart(e);
  sum.constant = checked_mul(sum.constant, factor);
  for (auto& term : sum.terms) term.coefficient = checked_mul(term.coefficient, factor);
  return put_together(sum);
}

void collect_factors(const IndexExpr& e, std::vector<IndexExpr>& factors) {
  if (e.op() == IndexOp::kMul) {
    collect_factors(e.lhs(), factors);
    collect_factors(e.rhs(), factors);
  } else {
    factors.push_back(e);
  }
}

/// The product of two atoms as an atom: factors in order, left to right.
IndexExpr atom_product(const IndexExpr& a, const IndexExpr& b) {
  std::vector<IndexExpr> factors;
  collect_factors(a, factors);
  collect_factors(b, factors);
  std::sort(factors.begin(), factors.end(),
            [](const auto& x, const auto& y) { return compare(x, y) < 0; });
  IndexExpr result = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) {
    result = make_index(IndexOp::kMul, result, factors[i]);
  }
  return result;
}

/// Products of sums are multiplied out up to this many terms; beyond it the product is an atom.
constexpr size_t kMaxExpandedTerms = 16;

}  // namespace

IndexExpr operator*(const IndexExpr& a, const IndexExpr& b) {
  if (a.is_const()) return scaled(b, a.constant());
  if (b.is_const()) return scaled(a, b.constant());
  const IndexSum x = take_apart(a), y = take_apart(b);
  if ((x.terms.size() + 1) * (y.terms.size() + 1) > kMaxExpandedTerms) return atom_product(a, b);
  IndexSum sum;
  sum.constant = checked_mul(x.constant, y.constant);
  for (const auto& s : x.terms) {
    sum.terms.push_back({s.atom, checked_mul(s.coefficient, y.constant)});
    for (const auto& t : y.terms) {
      sum.terms.push_back(
          {atom_product(s.atom, t.atom), checked_mul(s.coefficient, t.coefficient)});
    }
  }
  for (const auto& t : y.terms) {
    sum.terms.push_back({t.atom, checked_mul(t.coefficient, x.constant)});
  }
  return put_together_unordered(std::move(sum));
}

IndexExpr operator-(const IndexExpr& a, const IndexExpr& b) {
  if (a.is_const() && b.is_const()) {
    return IndexExpr(checked_add(a.constant(), checked_mul(b.constant(), -1)));
  }
  if (a == b) return 0;
  return a + scaled(b, -1);
}

IndexExpr floor_div(const IndexExpr& a, int64_t divisor) {
  WEFT_CHECK(divisor > 0, "floordiv by a number that is not positive");
  if (divisor == 1) return a;
  if (a.is_const()) return IndexExpr(floor_divide(a.constant(), divisor));
  if (a.op() == IndexOp::kFloorDiv) {
    int64_t product = 0;
    if (!__builtin_mul_overflow(a.rhs().constant(), divisor, &product)) {
      return floor_div(a.lhs(), product);
    }
  }
  if (a.op() == IndexOp::kMod && a.rhs().constant() % divisor == 0) {
    return mod(floor_div(a.lhs(), divisor), a.rhs().constant() / divisor);
  }
  if (a.is_var()) return make_index(IndexOp::kFloorDiv, a, IndexExpr(divisor));
  // Multiples of the divisor come out whole; what is left is divided by the common factor.
  IndexSum rest = take_apart(a), whole;
  whole.constant = floor_divide(rest.constant, divisor);
  rest.constant = floor_modulo(rest.constant, divisor);
  int64_t common = divisor;
  size_t kept = 0;
  for (size_t i = 0; i < rest.terms.size(); ++i) {
    if (rest.terms[i].coefficient % divisor == 0) {
      whole.terms.push_back({rest.terms[i].atom, rest.terms[i].coefficient / divisor});
    } else {
      common = std::gcd(common, rest.terms[i].coefficient);
      if (kept != i) rest.terms[kept] = std::move(rest.terms[i]);
      ++kept;
    }
  }
  rest.terms.resize(kept);
  if (kept == 0) return put_together(whole);
  if (common > 1) {
    for (auto& term : rest.terms) term.coefficient /= common;
    rest.constant /= common;
    divisor /= common;
  }
  const IndexExpr inner = put_together(rest);
  const bool nested = inner.op() == IndexOp::kFloorDiv || inner.op() == IndexOp::kMod;
  const bool again = nested && !(inner == a);
  const IndexExpr quotient =
      again ? floor_div(inner, divisor) : make_index(IndexOp::kFloorDiv, inner, IndexExpr(divisor));
  return put_together(whole) + quotient;
}

IndexExpr mod(const IndexExpr& a, int64_t modulus) {
  WEFT_CHECK(modulus > 0, "mod by a number that is not positive");
  if (modulus == 1) return IndexExpr(0);
  if (a.is_const()) return IndexExpr(floor_modulo(a.constant(), modulus));
  if (a.is_var()) return make_index(IndexOp::kMod, a, IndexExpr(modulus));
  if (a.op() == IndexOp::kMod && a.rhs().constant() % modulus == 0) return mod(a.lhs(), modulus);
  IndexSum rest = take_apart(a);
  rest.constant = floor_modulo(rest.constant, modulus);
  int64_t common = modulus;
  size_t kept = 0;
  for (size_t i = 0; i < rest.terms.size(); ++i) {
    if (rest.terms[i].coefficient % modulus == 0) continue;
    common = std::gcd(common, rest.terms[i].coefficient);
    if (kept != i) rest.terms[kept] = std::move(rest.terms[i]);
    ++kept;
  }
  rest.terms.resize(kept);
  if (kept == 0) return IndexExpr(rest.constant);
  const int64_t below = rest.constant % common;
  if (common > 1) {
    for (auto& term : rest.terms) term.coefficient /= common;
    rest.constant /= common;
    modulus /= common;
  }
  const IndexExpr inner = put_together(rest);
  const bool again = inner.op() == IndexOp::kMod && inner.rhs().constant() % modulus == 0;
  const IndexExpr remainder =
      again ? mod(inner.lhs(), modulus) : make_index(IndexOp::kMod, inner, IndexExpr(modulus));
  return scaled(remainder, common) + IndexExpr(below);
}

namespace {

IndexExpr extremum(IndexOp op, const IndexExpr& a, const IndexExpr& b) {
  const IndexExpr difference = a - b;
  if (difference.is_const()) {
    return (difference.constant() <= 0) == (op == IndexOp::kMin) ? a : b;
  }
  return compare(a, b) <= 0 ? make_index(op, a, b) : make_index(op, b, a);
}

}  // namespace

IndexExpr min(const IndexExpr& a, const IndexExpr& b) { return extremum(IndexOp::kMin, a, b); }
IndexExpr max(const IndexExpr& a, const IndexExpr& b) { return extremum(IndexOp::kMax, a, b); }

namespace {

IndexExpr build(IndexOp op, const IndexExpr& a, const IndexExpr& b) {
  switch (op) {
    case IndexOp::kAdd:
      return a + b;
    case IndexOp::kMul:
      return a * b;
    case IndexOp::kFloorDiv:
      return floor_div(a, b.constant());
    case IndexOp::kMod:
      return mod(a, b.constant());
    case IndexOp::kMin:
      return min(a, b);
    case IndexOp::kMax:
      return max(a, b);
    case IndexOp::kConst:
    case IndexOp::kVar:
      break;
  }
  throw_internal_error(__FILE__, __LINE__, "operator", "a leaf has none");
}

/// Below this size a walk without memory is cheaper than one with.
constexpr int64_t kPlainWalkSize = 64;

class Substitution {
 public:
  Substitution(const std::function<IndexExpr(int)>& replacement, bool remembers)
      : replacement_(replacement), remembers_(remembers) {}

  IndexExpr run(const IndexExpr& e) {
    if (e.is_const()) return e;
    if (e.is_var()) return replacement_(e.var_id());
    if (!remembers_) return rebuilt(e);
    const auto found = done_.find(&node_of(e));
    if (found != done_.end()) return found->second;
    IndexExpr result = rebuilt(e);
    done_.emplace(&node_of(e), result);
    return result;
  }

 private:
  IndexExpr rebuilt(const IndexExpr& e) {
    if (e.op() == IndexOp::kAdd) return rebuilt_sum(e);
    const IndexExpr a = run(e.lhs());
    const IndexExpr b = run(e.rhs());
    if (&node_of(a) == &node_of(e.lhs()) && &node_of(b) == &node_of(e.rhs())) return e;
    return build(e.op(), a, b);
  }
  /// All terms at once: adding them one by one would rebuild the sum each time.
  IndexExpr rebuilt_sum(const IndexExpr& e) {
    const IndexSum from = take_apart(e);
    IndexSum to;
    to.constant = from.constant;
    to.terms.reserve(from.terms.size());
    bool changed = false;
    for (const auto& term : from.terms) {
      const IndexExpr atom = run(term.atom);
      changed |= &node_of(atom) != &node_of(term.atom);
      add_multiple(atom, term.coefficient, &to);
    }
    return changed ? put_together_unordered(std::move(to)) : e;
  }

  const std::function<IndexExpr(int)>& replacement_;
  bool remembers_;
  std::unordered_map<const IndexExpr::Node*, IndexExpr> done_;
};

}  // namespace

IndexExpr substitute(const IndexExpr& e, const std::function<IndexExpr(int id)>& replacement) {
  return Substitution(replacement, e.tree_size() > kPlainWalkSize).run(e);
}

int64_t evaluate(const IndexExpr& e, const std::function<int64_t(int id)>& value) {
  switch (e.op()) {
    case IndexOp::kConst:
      return e.constant();
    case IndexOp::kVar:
      return value(e.var_id());
    case IndexOp::kAdd:
      return checked_add(evaluate(e.lhs(), value), evaluate(e.rhs(), value));
    case IndexOp::kMul:
      return checked_mul(evaluate(e.lhs(), value), evaluate(e.rhs(), value));
    case IndexOp::kFloorDiv:
      return floor_divide(evaluate(e.lhs(), value), e.rhs().constant());
    case IndexOp::kMod:
      return floor_modulo(evaluate(e.lhs(), value), e.rhs().constant());
    case IndexOp::kMin:
      return std::min(evaluate(e.lhs(), value), evaluate(e.rhs(), value));
    case IndexOp::kMax:
      return std::max(evaluate(e.lhs(), value), evaluate(e.rhs(), value));
  }
  throw_internal_error(__FILE__, __LINE__, "operator", "out of range");
}

namespace {

void collect_variables(const IndexExpr& e, std::vector<int>& ids) {
  if (e.is_const()) return;
  if (e.is_var()) {
    ids.push_back(e.var_id());
    return;
  }
  collect_variables(e.lhs(), ids);
  collect_variables(e.rhs(), ids);
}

}  // namespace

std::vector<int> variables(const IndexExpr& e) {
  std::vector<int> ids;
  if (e.is_const()) return ids;
  ids.reserve(kUsualTerms);
  collect_variables(e, ids);
  if (ids.size() < 2) return ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

bool uses_var(const IndexExpr& e, int id) {
  if (e.is_const()) return false;
  if (e.is_var()) return e.var_id() == id;
  return uses_var(e.lhs(), id) || uses_var(e.rhs(), id);
}

int64_t AffineForm::coefficient(int id) const {
  for (const auto& [var, c] : terms) {
    if (var == id) return c;
  }
  return 0;
}

bool as_affine(const IndexExpr& e, AffineForm* form) {
  if (!node_of(e).affine) return false;
  form->terms.clear();
  form->terms.reserve(kUsualTerms);
  form->constant = 0;
  const IndexExpr* rest = &e;
  while (true) {
    const bool sum = rest->op() == IndexOp::kAdd;
    const IndexExpr& part = sum ? rest->rhs() : *rest;
    if (part.is_const()) {
      form->constant = part.constant();
    } else if (part.is_var()) {
      form->terms.emplace_back(part.var_id(), 1);
    } else {
      form->terms.emplace_back(part.lhs().var_id(), part.rhs().constant());
    }
    if (!sum) break;
    rest = &rest->lhs();
  }
  std::reverse(form->terms.begin(), form->terms.end());
  return true;
}

}  // namespace weft
