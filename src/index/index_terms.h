#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "index/index_expr.h"

namespace weft {

/// The terms of a sum, in order; an expression that is none is its only term.
std::vector<IndexExpr> terms_of(const IndexExpr& e);

/// The affine form of an expression that has one.
std::optional<AffineForm> affine_form(const IndexExpr& e);

/// The first number by which an expression divides a variable itself, by floordiv or mod; 0 where
/// it does not.
int64_t divisor_of(const IndexExpr& e, int var);

}  // namespace weft
