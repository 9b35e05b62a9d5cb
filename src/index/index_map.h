#pragma once

#include <optional>
#include <string>
#include <vector>

#include "index/index_expr.h"
#include "support/result.h"

namespace weft {

/// `(d0, d1)[s0] -> (d0, s0, d1 floordiv 2)`: from coordinates (dims 0..n-1 within `domain`, then
/// symbols n..n+m-1 within `symbol_ranges`) to coordinates, defined where every constraint
/// expression lies in its interval.
struct IndexMap {
  std::vector<Interval> domain;
  std::vector<Interval> symbol_ranges;
  std::vector<IndexExpr> results;
  struct Constraint {
    IndexExpr expr;
    Interval range;
    friend bool operator==(const Constraint&, const Constraint&) = default;
  };
  std::vector<Constraint> constraints;

  int dim_count() const { return static_cast<int>(domain.size()); }
  Interval range(int var) const;
  friend bool operator==(const IndexMap&, const IndexMap&) = default;
};

IndexMap identity_map(const std::vector<int64_t>& shape);
/// Output coordinates of a reshape to input coordinates: delinearise(linearise(d)), simplified.
IndexMap reshape_map(const std::vector<int64_t>& from, const std::vector<int64_t>& to);

/// second ∘ first: coordinates go through `first`, then `second`. The domain is first's; second's
/// domain becomes constraints where it is not implied. Symbols of both are kept, first's before
/// second's.
IndexMap compose(const IndexMap& first, const IndexMap& second);

/// The inverse of a bijection of its domain onto the box of its image, or a reason why none was
/// found (it handles permutations, offsets, strides of ±1, and mixed-radix splits and merges as
/// reshapes make them).
Result<IndexMap> inverse(const IndexMap& map);

/// The bounding box of the image.
std::vector<Interval> image(const IndexMap& map);

IndexMap simplify(const IndexMap& map);
/// Whether distinct points of the domain have distinct images (false when not proven).
bool is_injective(const IndexMap& map);

std::string print(const IndexMap& map);
/// Inverse of print. Errors say at which character.
Result<IndexMap> parse_index_map(std::string_view text);

}  // namespace weft
