#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tile/scope_analysis.h"

namespace weft {

/// Bytes that the program moves between parameters (and workspaces) and the chip. Requested =
/// in-bounds elements × executions; unique = distinct elements per tensor.
struct Traffic {
  int64_t requested_read = 0, requested_written = 0;
  int64_t unique_read = 0, unique_written = 0;
  std::map<TileSymbolId, int64_t> unique_read_of;  ///< of each tensor that is read
  /// False: a bound from above, where indices depend on data or there are too many points to
  /// enumerate.
  bool exact = true;
};
/// Requires: a verified program. Equals what the evaluator counts where `exact`; of
/// windows that overlap in a GPU's box it is a bound, since a warp asks once for what its lanes
/// have in common. A number of blocks that is not bound counts as one block per iteration.
Result<Traffic> predict_traffic(const TileProgram& program, const ScopeAnalysis& scopes);

/// Distinct bytes of each tensor (parameter, view or workspace) that one nest of a program's body
/// reads and writes.
struct NestTraffic {
  std::map<TileSymbolId, int64_t> read, written;
};
/// By nest, in their order: a recurrence counts as one. Requires and bounds: as predict_traffic.
Result<std::vector<NestTraffic>> traffic_by_nest(const TileProgram& program,
                                                 const ScopeAnalysis& scopes);

}  // namespace weft
