#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// An inclusive range of integers; empty when lo > hi.
struct Interval {
  int64_t lo = 0;
  int64_t hi = -1;
  bool empty() const { return lo > hi; }
  bool contains(int64_t v) const { return lo <= v && v <= hi; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

enum class IndexOp : uint8_t { kConst, kVar, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };

/// An immutable integer expression over numbered variables: constants, +, *, floordiv, mod (both by
/// positive constants; mod's result is never negative), min, max. A value type: copying shares the
/// tree. Arithmetic wraps never: overflow is an internal error. What a variable means (loop, axis,
/// launch argument, runtime value) is the owner's business.
class IndexExpr {
 public:
  IndexExpr() : IndexExpr(0) {}
  IndexExpr(int64_t constant);  // NOLINT: implicit, so that `i * 4 + 1` reads as it should
  static IndexExpr var(int id);

  IndexOp op() const;
  int64_t constant() const;  ///< of kConst
  int var_id() const;        ///< of kVar
  const IndexExpr& lhs() const;
  const IndexExpr& rhs() const;
  bool is_const() const { return op() == IndexOp::kConst; }
  bool is_const(int64_t v) const { return is_const() && constant() == v; }
  bool is_var() const { return op() == IndexOp::kVar; }

  size_t hash() const;
  /// Nodes of the expression written out as a tree: what a walk costs. Saturates.
  int64_t tree_size() const;
  /// Structural equality.
  friend bool operator==(const IndexExpr& a, const IndexExpr& b);

  struct Node;

 private:
  explicit IndexExpr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  friend IndexExpr make_index(IndexOp, const IndexExpr&, const IndexExpr&);
  friend const IndexExpr::Node& node_of(const IndexExpr&);
  std::shared_ptr<const Node> node_;
};

/// Builders; they fold constants and put sums of products into a canonical order (constant last,
/// equal terms merged).
IndexExpr operator+(const IndexExpr& a, const IndexExpr& b);
IndexExpr operator-(const IndexExpr& a, const IndexExpr& b);
IndexExpr operator*(const IndexExpr& a, const IndexExpr& b);
IndexExpr floor_div(const IndexExpr& a, int64_t divisor);
IndexExpr mod(const IndexExpr& a, int64_t modulus);
IndexExpr min(const IndexExpr& a, const IndexExpr& b);
IndexExpr max(const IndexExpr& a, const IndexExpr& b);

/// The range of variable `id`; return a very wide interval (kUnbounded) for one that is not known.
using RangeOf = std::function<Interval(int id)>;
inline constexpr Interval kUnbounded{-(int64_t{1} << 40), int64_t{1} << 40};

/// Bounds of the expression: every value it takes lies inside (tight for affine expressions of
/// independent variables).
Interval range_of(const IndexExpr& e, const RangeOf& range);

/// An equal expression for all variables within their ranges, usually shorter: (4*a+b) floordiv 4
/// -> a when 0<=b<4, (a*n + b) mod n -> b, (x floordiv a) floordiv b -> x floordiv ab, (x floordiv
/// n)*n + x mod n -> x, min and max that are decided. Bounded work; idempotent.
IndexExpr simplify(const IndexExpr& e, const RangeOf& range);

/// Replaces variables: `replacement(id)`.
IndexExpr substitute(const IndexExpr& e, const std::function<IndexExpr(int id)>& replacement);

int64_t evaluate(const IndexExpr& e, const std::function<int64_t(int id)>& value);

/// A total order of expressions, by structure: negative, zero, positive.
int compare(const IndexExpr& a, const IndexExpr& b);

/// Ids of the variables used, ascending, without repetition.
std::vector<int> variables(const IndexExpr& e);
bool uses_var(const IndexExpr& e, int id);

/// If e == sum_i c_i * var_i + c0 with constant coefficients: fills them and returns true.
struct AffineForm {
  std::vector<std::pair<int, int64_t>>
      terms;  ///< (variable, coefficient != 0), ascending by variable
  int64_t constant = 0;
  int64_t coefficient(int id) const;
};
bool as_affine(const IndexExpr& e, AffineForm* form);

/// "d0 * 4 + d1 floordiv 2 + 1"; `name` gives each variable's name ("v3" when empty).
std::string print(const IndexExpr& e, const std::function<std::string(int id)>& name = {});

}  // namespace weft
