#pragma once

#include <span>
#include <vector>

#include "expr/scalar_expr.h"

namespace weft {

/// What of a body knows axes: a read, or an index that stands in it as a value. Who changes axes
/// several times changes leaves, and writes the body once in the end.
struct Leaf {
  int symbol = -1;                 ///< of a read; -1 of an index
  std::vector<IndexExpr> indices;  ///< of a read; of an index it alone
  bool is_read() const { return symbol >= 0; }
};

/// Those of a body, each distinct one once, in the order of visit().
std::vector<Leaf> leaves_of(const ScalarRef& body);

/// Renames variables: what `to` has at their number. Those of runtime indices stay.
void rename_variables(std::span<const IndexExpr> to, std::vector<Leaf>& leaves);

/// The body with others in their places, in the same order.
///
/// Requires: as many as leaves_of gives, reads for reads.
ScalarRef with_leaves(const ScalarRef& body, std::vector<Leaf> leaves);

}  // namespace weft
