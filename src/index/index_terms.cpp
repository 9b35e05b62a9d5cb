#include "index/index_terms.h"

#include <utility>

namespace weft {

namespace {

void collect_terms(const IndexExpr& e, std::vector<IndexExpr>& terms) {
  if (e.op() == IndexOp::kAdd) {
    collect_terms(e.lhs(), terms);
    collect_terms(e.rhs(), terms);
  } else {
    terms.push_back(e);
  }
}

}  // namespace

std::vector<IndexExpr> terms_of(const IndexExpr& e) {
  std::vector<IndexExpr> terms;
  collect_terms(e, terms);
  return terms;
}

std::optional<AffineForm> affine_form(const IndexExpr& e) {
  AffineForm form;
  return as_affine(e, &form) ? std::optional(std::move(form)) : std::nullopt;
}

int64_t divisor_of(const IndexExpr& e, int var) {
  if (e.is_const() || e.is_var()) return 0;
  const bool divides = e.op() == IndexOp::kFloorDiv || e.op() == IndexOp::kMod;
  if (divides && e.lhs().is_var() && e.lhs().var_id() == var) return e.rhs().constant();
  const int64_t left = divisor_of(e.lhs(), var);
  return left != 0 ? left : divisor_of(e.rhs(), var);
}

}  // namespace weft
