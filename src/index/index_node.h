#pragma once

#include <vector>

#include "index/index_expr.h"

namespace weft {

/// The inside of an IndexExpr, for the files of this folder.
struct IndexExpr::Node {
  Node(IndexOp o, int64_t v, IndexExpr l, IndexExpr r);
  /// A leaf.
  Node(IndexOp o, int64_t v);

  IndexOp op;
  bool affine = false;  ///< a sum of variables with constant coefficients, in canonical form
  int64_t value = 0;    ///< of a constant; the id of a variable
  size_t hash = 0;
  int64_t size = 1;
  IndexExpr lhs, rhs;
};

/// The node as it is: no folding, no order. The builders make canonical expressions of it.
IndexExpr make_index(IndexOp op, const IndexExpr& lhs, const IndexExpr& rhs);
const IndexExpr::Node& node_of(const IndexExpr& e);

/// A canonical sum taken apart: constant + sum of coefficient * atom, atoms ascending by compare()
/// and distinct, none a sum, a constant or a multiple.
struct IndexSum {
  struct Term {
    IndexExpr atom;
    int64_t coefficient = 1;
  };
  std::vector<Term> terms;
  int64_t constant = 0;
};
IndexSum take_apart(const IndexExpr& e);
/// Adds `factor` times the expression; the terms are then in no order.
void add_multiple(const IndexExpr& e, int64_t factor, IndexSum* to);
/// The canonical expression; `sum` may have coefficients of zero but its atoms must be in order.
IndexExpr put_together(const IndexSum& sum);
/// Sorts and merges the terms first.
IndexExpr put_together_unordered(IndexSum sum);

int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
int64_t floor_divide(int64_t a, int64_t b);
int64_t floor_modulo(int64_t a, int64_t b);

/// Beyond this many nodes an expression is not analysed any more: ranges are unknown, simplify
/// returns it as it is. Far above what models make; keeps walks over shared nodes bounded.
inline constexpr int64_t kMaxAnalysedSize = 4096;

}  // namespace weft
