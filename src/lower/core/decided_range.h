#pragma once

#include <optional>
#include <vector>

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// Iterations of a dimension of open length, and elements along it.
inline constexpr Interval kOpenIterations{0, int64_t{1} << 31};

/// Where the predicates of a body are decided along a dimension of open length.
struct DecidedRange {
  int64_t from = 0;  ///< first iteration
  struct Limit {
    IndexExpr slack;  ///< at iteration 0; decided while slack - loss * iteration >= 0
    int64_t loss = 1;
  };
  std::vector<Limit> limits;
};

/// Which iterations of a dimension its body's predicates hold or fail in throughout:
/// `a + k >= 0` from a known iteration on, `a + k < size` as long as something is left of the size.
DecidedRange decided_range(KernelWriter& w, const TileBody& body, const TileLoop::Dim& dim,
                           const IndexExpr& begin);

/// The iteration before which all limits hold, `whole` at most.
Reg emit_last_decided(KernelWriter& w, const DecidedRange& decided, Reg whole);

/// Adds to the facts what the limits say of iteration `t`.
void state_decided(KernelWriter& w, const DecidedRange& decided, const IndexExpr& t);

/// A predicate that an open size decides: coefficient * origin + rest >= 0, where `low` <= rest <=
/// `high` are made of open sizes. Origins below `first` decide it one way, those from `last` on the
/// other.
struct SizeCut {
  int64_t coefficient = 1;
  IndexExpr low, high;
  IndexExpr first, last;
};

/// The first such predicate of the body along a dimension whose length is known.
std::optional<SizeCut> size_cut(KernelWriter& w, const TileBody& body, const TileLoop::Dim& dim);

/// Adds to the facts what is decided of an origin below `first`, or else one from `last` on.
void state_decided(KernelWriter& w, const SizeCut& cut, const IndexExpr& origin, bool below_first);

}  // namespace weft::lowering
