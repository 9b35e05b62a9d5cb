#pragma once

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

}  // namespace weft::lowering
