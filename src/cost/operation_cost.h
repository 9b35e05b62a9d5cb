#pragma once

#include "expr/scalar_expr.h"
#include "graph/scalar_op.h"
#include "support/dtype.h"
#include "target/target.h"

namespace weft {

/// What one vector of a scalar operation takes of a core.
struct OperationCost {
  double instructions = 1;  ///< on vectors
  double latency = 4;       ///< cycles until the result can be used
  double divider = 0;       ///< cycles in which the divider is taken
  double products = 0;      ///< instructions that need a pipe that multiplies
};

/// As codegen/cpu writes it: elementary functions are their polynomials' instructions.
OperationCost cost_of(ScalarOp op, DType type, const Target& target);

/// A conversion between types. `is_element`: of one element that stands for all lanes.
OperationCost conversion_cost(DType from, DType to, bool is_element);

/// Whether a tree holds operations that take many cycles a vector: what the papers of
/// FusionStitching call expensive element-wise operations.
bool is_costly(const ScalarRef& s);

/// A division by what a loop does not change is a product with its reciprocal and a correction.
inline constexpr OperationCost kDivisionByOneValue{5, 14, 0, 4};

inline constexpr double kLoadLatency = 5;

}  // namespace weft
