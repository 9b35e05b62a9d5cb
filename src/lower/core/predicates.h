#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

struct Piece {
  int64_t begin = 0, end = 0;  ///< iterations
};

/// Left less right of a comparison of indices and integer constants; nullopt for other scalars.
std::optional<IndexExpr> compared_difference(const Scalar& s);

/// Integer comparisons of a body, and the ranges of the loops inside it.
std::vector<IndexExpr> predicates_of(const TileBody& body);

/// Ranges of the loops inside a body.
std::map<int, Interval> inner_ranges(const KernelWriter& w, const TileBody& body);

/// Cuts iterations [0, trips) where a predicate of the body changes from decided to undecided or
/// back.
std::vector<Piece> split_iterations(KernelWriter& w, const TileBody& body, const TileLoop::Dim& dim,
                                    int64_t origin0, int64_t trips);
/// The same for a dimension that begins at run time: `origins`, all that it may have, in pieces.
std::vector<Piece> split_origins(KernelWriter& w, const TileBody& body, TileLoop::Dim dim,
                                 Interval origins);

}  // namespace weft::lowering
