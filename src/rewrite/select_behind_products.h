#pragma once

#include <string>
#include <vector>

#include "rewrite/rewrite.h"

namespace weft {

/// Takes the choice of 0 for rows of NaN behind the product that reads them, so that nothing stands
/// between the product and what makes its rows. All elements of a row e / sum(e), e = exp(x -
/// max(x)), are NaN where the sum is, and none elsewhere: the largest e is 1.
///
/// Requires: a verified graph.
///     s = sum[n] e; p = e / s; q = is_nan(p) ? 0 : p; y = sum[n] q * v
///       ->   z = sum[n] p * v; y = is_nan(s) ? 0 : z
/// Of such a row alone it makes 0 where v has an infinity or a NaN, whose product with 0 is NaN.
/// Returns the names of the products' results, in order; none: the graph is as it was.
std::vector<std::string> select_behind_products(Graph& graph);

}  // namespace weft
