#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "index/index_expr.h"

namespace weft {

/// The values that an index takes while its variables run through their boxes, as one interval:
/// `extent` numbers from `origin`, which is over the origins of the loops around a block.
struct IndexHull {
  IndexExpr origin = 0;
  int64_t extent = 1;
};

/// The loops that cut work into blocks: their origins are `first`, `first` + step, …
struct CutLoop {
  Interval origins;
  int64_t step = 1;
};

/// The hull of an index whose variables have the hulls that `of` says. Nothing where its origin is
/// no index expression of the loops'.
///     d0*2 + d3 with d0 = [i, i+4), d3 = [0, 3)   ->  [i*2, i*2 + 9)
///     d0 floordiv 64 with d0 = [i, i+64), i in steps of 64   ->  [i floordiv 64, +1)
std::optional<IndexHull> hull_of(const IndexExpr& index, const std::vector<CutLoop>& loops,
                                 const std::function<IndexHull(int var)>& of);

/// The hull of two: one that holds no more than they need where they lie at a constant distance.
/// Nothing where they do not.
std::optional<IndexHull> joined(const IndexHull& a, const IndexHull& b,
                                const std::vector<CutLoop>& loops);

RangeOf origins_of(const std::vector<CutLoop>& loops);

}  // namespace weft
